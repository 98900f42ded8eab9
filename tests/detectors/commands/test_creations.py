import pytest

from haltline.detectors.commands import creations, destructions

CASES: list[tuple[str, str, tuple[str, ...]]] = [
    ("a redirection makes a file", "echo x > a.txt", ("path=a.txt",)),
    ("a heredoc makes a file", "cat <<'EOF' > d/a.py\nx\nEOF", ("path=d/a.py",)),
    ("both streams into a file make it", "make &> log", ("path=log",)),
    ("tee makes files", "echo x | tee a b", ("path=a", "path=b")),
    ("touch makes files", "touch a b", ("path=a", "path=b")),
    ("mkdir makes directories", "mkdir -p a/b c", ("path=a/b", "path=c")),
    ("a copy makes its destination", "cp a b", ("path=b",)),
    ("a copy into a directory makes what is in it", "cp -r x/a y d/", ("path=d/a", "path=d/y")),
    ("a move makes its destination", "mv a b", ("path=b",)),
    ("a download makes a file", "curl -sSL -o a.tgz http://h/a.tgz; wget -O b http://h/b", ("path=a.tgz", "path=b")),
    ("a clone makes a directory", "git clone https://h/o/repo.git", ("path=repo",)),
    ("a clone elsewhere makes that directory", "git clone --depth 1 https://h/o/repo x", ("path=x",)),
    ("a new branch is made", "git checkout -b fix", ("branch=fix",)),
    ("a new branch by switch is made", "git switch -c fix main", ("branch=fix",)),
    ("a tag is made", "git tag v1", ("tag=v1",)),
    ("a table is made", "psql -c 'create table t (a int)'", ("table=t",)),
    ("a table from a heredoc is made", "sqlite3 x.db <<E\ncreate table t (a);\nE", ("table=t",)),
    ("a database is made", "createdb shop", ("database=shop",)),
    ("so is that of a project", "cd /w && npx prisma init --datasource-provider sqlite", ("database=/w",)),
    ("one elsewhere is not", "npx prisma init --datasource-provider postgresql", ()),
    ("a container is made", "docker run -d --name web nginx", ("container=web",)),
    ("a volume is made", "docker volume create v", ("volume=v",)),
    ("a namespace is made", "kubectl create ns x", ("k8s=namespace/x",)),
    ("a bucket is made", "aws s3 mb s3://b", ("bucket=b",)),
    ("a project is made", "django-admin startproject shop", ("path=shop",)),
    ("a virtual environment is made", "python3 -m venv env", ("path=env",)),
    ("a directory that was entered counts", "cd a && touch b", ("path=a/b",)),
    ("a made file is named in the same way", "touch ./a//b/../c", ("path=a/c",)),
    ("appending makes nothing", "echo x >> a.txt; echo y | tee -a b", ()),
    ("emptying makes nothing", "cat /dev/null > a.txt", ()),
    ("opening for writing makes it, where it was not there", ": > a.txt", ("path=a.txt",)),
    ("a log that is appended to", "python a.py >> run.log", ("path=run.log",)),
    ("a copy of what is edited in place", "sed -i.bak -e 's/a/b/' x.py", ("path=x.py.bak",)),
    ("a device is not made", "echo x > /dev/null; dd of=/dev/sda", ()),
    ("a directory of all that may be there is not made", "mkdir -p /data", ()),
    ("deleting a branch makes none", "git branch -D x", ()),
    ("a table that may be there is not made", "psql -c 'create table if not exists t (a int)'", ()),
    ("printing makes nothing", "echo 'mkdir x; touch y'", ()),
]


@pytest.mark.parametrize(("command", "made"), [pytest.param(c, m, id=sentence) for sentence, c, m in CASES])
def test_creations(command: str, made: tuple[str, ...]) -> None:
    assert creations(command) == made


def test_what_is_made_has_the_name_under_which_it_is_destroyed() -> None:
    command = "cat <<E > ./t.py\nx\nE\npython t.py; rm t.py"

    assert creations(command, cwd="/w") == tuple(d.target for d in destructions(command, cwd="/w")) == ("path=/w/t.py",)

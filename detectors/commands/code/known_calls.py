"""The calls of a program that delete something or execute a text, by their usual names.

Misses: functions and methods that the program names itself; clients whose methods are not named after their effect.
"""

from haltline.detectors.commands.model import listed
from haltline.schemas import expressions as re
from haltline.schemas.tool_names import destroying_verb, words

PATHS = frozenset(listed("""
    os.remove os.unlink os.rmdir os.removedirs os.truncate fs.unlinkSync fs.unlink fs.rmdirSync fs.rmdir
    fs.truncateSync fs.promises.unlink fs.promises.rmdir unlinkSync File.delete File.unlink Dir.delete Dir.rmdir
    Dir.unlink FileUtils.rm FileUtils.rm_f FileUtils.rmdir unlink rmdir Files.delete Files.deleteIfExists os.Remove
    fs.remove_file remove_file fs.remove_dir file.remove System.IO.File.Delete File.Delete IO.File.Delete Deno.remove
    Deno.removeSync FileManager.default.removeItem pathlib.Path.unlink os.ftruncate
    fs.ftruncateSync fs.ftruncate
"""))  # fmt: skip
TREES = frozenset(listed("""
    shutil.rmtree rmtree fs.rmSync fs.rm fs.promises.rm fs.removeSync fs.remove fs.emptyDirSync rmSync FileUtils.rm_rf
    FileUtils.rm_r FileUtils.remove_dir FileUtils.remove_entry FileUtils.rmtree FileUtils.deleteDirectory remove_tree
    os.RemoveAll fs.remove_dir_all remove_dir_all System.IO.Directory.Delete Directory.Delete IO.Directory.Delete
    rimraf rimraf.sync rimrafSync dbutils.fs.rm rm_rf remove_dir send2trash send2trash.send2trash del del.sync
    deleteSync shell.rm shutil.rmtree.delete filesystem.rm fs.delete trash setuptools.remove_tree
    distutils.dir_util.remove_tree shelljs.rm fse.remove fse.removeSync
"""))  # fmt: skip
SHELLS = frozenset(listed("""
    os.system os.popen subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.Popen
    subprocess.getoutput subprocess.getstatusoutput commands.getoutput execSync exec child_process.execSync
    child_process.exec child_process.spawn child_process.spawnSync child_process.execFile child_process.execFileSync
    spawn spawnSync execFile execFileSync system shell_exec passthru popen proc_open os.execvp os.execv os.execl
    os.execlp os.execve os.spawnlp os.spawnvp os.posix_spawn pty.spawn asyncio.create_subprocess_exec
    asyncio.create_subprocess_shell pexpect.run pexpect.spawn get_ipython.system get_ipython.getoutput Kernel.system
    Open3.capture2 Open3.capture3 Open3.popen3 IO.popen exec.Command Command.new Process.Start
    System.Diagnostics.Process.Start Runtime.getRuntime.exec execa execaCommand shell Deno.Command child_process.fork
    os.execute io.popen system2 Bun.spawn Bun.spawnSync Deno.run run_cmd invoke.run c.run shelljs.exec fabric.run
    local sudo plumbum.local
"""))  # fmt: skip
_ARGUMENTS_APART = frozenset(listed("""
    spawn spawnSync execFile execFileSync execvp execv execl execlp Command system2 create_subprocess_exec posix_spawn
    spawnlp spawnvp capture2 capture3 popen3 Start execa new
"""))  # fmt: skip
"""Calls that take the program and each of its arguments as separate arguments."""
CODES = frozenset(("exec", "eval", "Function", "vm.runInNewContext", "vm.runInThisContext", "runpy", "instance_eval"))
_SQL = frozenset(listed("""
    execute executemany executescript execute_async exec_driver_sql sql query raw read_sql read_sql_query run_query
    run exec unsafe executeRawUnsafe $executeRawUnsafe $queryRawUnsafe prepare Exec dbExecute dbSendQuery dbGetQuery
    dbSendStatement Invoke ExecContext Query execute_query execute_sql run_sql executeQuery executeUpdate
    execute_string command run_async fetch fetchval all select queryRaw do
"""))  # fmt: skip
_LONE = frozenset(("delete", "drop", "destroy", "remove", "Delete", "Drop", "del", "truncate", "flushall", "flushdb"))
_STORES = re.compile(
    r"client|redis|\bdb\b|\bdb\.|api|catalog|store|bucket|repo|s3|storage|warehouse|service|manager|assets?\b|database"
    r"|knex|supabase|sequelize|prisma|firestore|volumes|containers|resource|Object\b|docker|^DB\b"
    r"|collection|table|objects|blob|\.where\b|\.all\b|\bquery\b|session\.query|admin|mongo|index|topic|queue|dataset|filesystem|\bfs\b",
    re.IGNORECASE,
)
_HARMLESS_BASES = re.compile(
    r"^(?:Map|Set|WeakMap|URLSearchParams|FormData|Headers|set|dict|list|defaultdict|OrderedDict|cache|caches|params"
    r"|deque|df|pd|localStorage|sessionStorage|cookies|classList|request|QTimer|np|numpy)\b"
)
_STRONG = frozenset(listed("terminate deregister delete destroy purge truncate wipe erase drop nuke to_trash"))
_NOT_DATA = frozenset(listed("""
    drop_duplicates drop_na drop_level drop_caches drop_index delete_property delete_contents delete_row delete_cell
    delete_line drop_first drop_last drop_while delete_char drop_out terminate_process terminate_thread
    terminate_worker terminate_pool terminate_program delete_text truncate_string truncate_text delete_from_document
    drop_shadow drop_privileges delete_later delete_at delete_if erase_line drop_path wipe_line delete_cookie
"""))  # fmt: skip
_DESCRIBES = frozenset(("DeleteModel",))
"""Migration operations: constructing one has no effect, another call executes it."""
_NOUNS_OF_CODE = frozenset(("column", "columns", "vars", "attr", "item", "key", "prefix", "whitespace", "char", "nan"))


CALLS_TOOLS = frozenset(listed("""
    call call_tool callTool invoke execute_tool run_tool use_tool dispatch tool execute run invoke_tool request send
"""))  # fmt: skip
"""Calls whose first argument may be a tool's name."""
RUNS = frozenset(("exec_command", "run", "sudo", "run_command", "send_command", "sendline", "shell", "cmd"))
"""Methods of remote and local shells. Only arguments that are command lines count."""
TAGS_OF_SQL = frozenset(("sql", "executeRaw", "queryRaw", "$executeRaw", "$queryRaw", "Prisma.sql", "raw"))
_UNMISTAKABLE = frozenset((
    "rmSync", "unlinkSync", "rmdirSync", "rmtree", "emptyDirSync", "removeSync", "remove_dir_all", "remove_all",
    "RemoveAll", "deleteDirectory", "remove_tree", "rm_rf", "rimrafSync", "removedirs", "remove_file",
))  # fmt: skip
"""Names that always mean removal of files, on any object."""


_IN_MEMORY = re.compile(r"['\"]:memory:['\"]|sqlite(?:\+\w+)?:///?(?::memory:)?['\"]")
_ELSEWHERE = re.compile(
    r"\bhost\b|psycopg|mysql|postgres|mongo|boto3|redis|cassandra|oracle|snowflake|bigquery|\w://(?!['\"]|/?:memory:)"
    r"|connect\((?!\s*['\"]:memory:)",
    re.IGNORECASE,
)
"""Signs of a connection to another database, or to a service."""


def keeps_in_memory(program: str) -> bool:
    """Return whether a program's only database is in memory, so that its data ends with the program."""
    return _IN_MEMORY.search(program) is not None and _ELSEWHERE.search(program) is None


def is_removal(ref: str) -> bool:
    """Return whether a call removes the files named by its first argument."""
    base, _, last = ref.rpartition(".")
    return ref in PATHS or ref in TREES or last in _UNMISTAKABLE or (last == "rm" and "filesystem" in base.lower())


def is_shell(ref: str) -> bool:
    """Return whether a call executes its text, or its words, as a command line."""
    return ref in SHELLS or ref.rpartition(".")[2] in ("execSync", "check_call", "check_output", "getoutput")


def takes_words(ref: str) -> bool:
    """Return whether such a call takes the program and its arguments as separate arguments."""
    return ref.rpartition(".")[2] in _ARGUMENTS_APART


def runs_sql(ref: str) -> bool:
    """Return whether a call may execute its text as a statement."""
    return ref.rpartition(".")[2] in _SQL


def takes_away(ref: str, *, named: bool) -> str:
    """Return the verb of a destructive method name. `named`: a keyword argument names the target."""
    base, _, last = ref.rpartition(".")
    if last in _LONE:
        if _HARMLESS_BASES.match(base) is not None or not base:
            return ""
        if base[:1].isupper() and last in ("destroy", "truncate") and base.replace(".", "_").isidentifier():
            return last  # a model
        return last.lower() if _STORES.search(base) is not None or (named and last.lower() == "delete") else ""
    if last in ("delete_all", "destroy_all") and base[:1].isupper():
        return last
    verbs = () if last in _DESCRIBES else words(last)
    if verbs[-1:] == ("command",):  # `new DeleteObjectCommand({...})`
        verbs = verbs[:-1]
    if len(verbs) < 2 or "_".join(verbs) in _NOT_DATA or not _NOUNS_OF_CODE.isdisjoint(verbs):
        return ""
    verb = destroying_verb("_".join(verbs))
    if verb == "remove" and not {"table", "bucket", "database", "collection"}.isdisjoint(verbs):
        return "_".join(verbs)
    return "_".join(verbs) if verb in _STRONG else ""

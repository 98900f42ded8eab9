"""Irreversible effects of programs, beyond those that the readers in `programs` find: an extensible table.

A line is `effect | program and words | conditions | target`; `rows` defines the parts.

Misses: unlisted programs, unless an option shows the effect; the contents of their input files.
"""

from collections.abc import Iterator, Sequence

from haltline.detectors.commands.effects import rows
from haltline.detectors.commands.effects.services import OTHER_HANDS, SERVICES, WHOLE_STACKS
from haltline.detectors.commands.model import Destruction
from haltline.detectors.commands.shell.invocation import Invocation

_SYSTEM = r"""
# files: moved to a trash or a temporary folder, written over others
overwrites | cp,scp | +empty/null/blank /(^|\s)\S*(empty|blank|null)\S*\s+\S+$/ | path:$0
overwrites | rsync,kubectl,docker,podman | +null /(^|\s)\/dev\/null\s+\S+$/ | path:$0
overwrites | curl,wget | +null /file:\/+dev\/null/ | path:-o,-O,--output,--output-document
overwrites | tar | +null /(-T|--files-from)\s?\/dev\/null/ | path:$1
overwrites | unzip | /(^|\s)-\w*o/ !/\s-d\s+(\/tmp|\.|vendor)/ | -d,$1
overwrites | tar | +overwrite/unlink /overwrite|unlink-first/ | -C,$0
overwrites | mount | /tmpfs|--bind/ | path:$0
destroys~ | hdfs,hadoop dfs/fs | /-mv\s+\S+\s+\S*(trash|\/tmp|null)/ | $0
destroys | fallocate | /punch|collapse|zero-range|(^|\s)-[pcz]\b/ | path:$0
overwrites | fsutil file createnew | | path:$1
destroys | cipher | /\/w/ |
destroys | robocopy | /\/(mir|purge)/ !/\/l\b/ !/%te?mp%|env:te?mp/ | path:$2
destroys~ | robocopy | /\/mov/ /%te?mp%|env:te?mp|(windows|local|[:\\\/])[\\\/]?te?mp/ !/\/l\b/ | path:$1
destroys | wevtutil cl/clear-log | | $1
destroys~ | fsutil volume | /dismount/ | $2
destroys | icacls | /\/(reset|remove|deny)|\/inheritance:r/ | path:$1
destroys | wsl,wsl.exe | --unregister | --unregister
destroys | manage-bde,manage-bde.exe | /-(forcerecovery|off|delete)\b/ | $1
destroys~ | net,net.exe stop | /sql|oracle|backup|vss|exchange|postgres|defend|mpssvc|eventlog/ | $1
overwrites | restore-vmsnapshot,restore-vmcheckpoint,restore-sqldatabase,restore-dbadatabase,restore-azsqldatabase | | -name,-databasename,-database,$1
destroys~ | takeown | /\/r\b/ |
destroys! | format | +c/d/e/f/g/h/q/y/fs/u /^[a-z]:/ | drive:$1
destroys | diskpart | /\/s/ | $1
destroys | vssadmin delete/resize | |
destroys | snap remove | /--purge/ | $1
destroys | wbadmin delete/disable | |
destroys | wmic shadowcopy delete | |
destroys | bcdedit | /\/(delete|set|import)/ |
destroys | reg,reg.exe delete | | $1
destroys~ | sc,sc.exe delete/config | | $1
destroys | schtasks | /\/delete/ | /tn
hands_over | schtasks | /\/create/ | /tn
destroys | net,net.exe user | /\/delete|\/active:no/ | $1
exposes | net,net.exe localgroup/group | /\/add/ | $1
exposes | icacls | /everyone|\*s-1-1-0|\/grant.*:\(?f|:\(oi\)\(ci\)f/ | path:$1
exposes | netsh | /state\s+off|firewall\s+(reset|set\s+opmode.*disable)/ |
destroys | clear-recyclebin | |
destroys | clear-disk,initialize-disk,remove-partition,reset-physicaldisk,format-volume | | -number,-disknumber,-driveletter
destroys | remove-itemproperty,clear-itemproperty | | -path,$1
destroys | remove-* | |
destroys | uninstall-*,revoke-* | |
destroys | clear-eventlog,clear-adaccountexpiration | | -logname,$1
overwrites | reset-*,set-adaccountpassword,set-msoluserpassword | | -identity,-name,$1
destroys~ | disable-* | |
destroys~ | disable-adaccount,disable-localuser,disable-mailbox,disable-netadapter,stop-computer,stop-vm | | -identity,-name,$1
exposes | add-localgroupmember,add-adgroupmember,add-mailboxpermission,new-azroleassignment | | -group,-identity
exposes | set-*,update-* | /-\w*public\w*\s+\$?(true|enabled|blob|container)/ | -name
destroys | search-mailbox | /-deletecontent/ | -identity,$1
destroys | new-compliancesearchaction | /-purge/ | -searchname,$1
destroys~ | set-*,update-* | /-\w*(versioning|backup|softdelete|deleteretention|protection)\w*[\s:]+(\$?false|disabled|0)\b/ | -name
exposes | set-executionpolicy | /unrestricted|bypass/ |
exposes | set-mppreference | /disable\w*\s+(\$true|1)|exclusion/ |
exposes | set-netfirewallprofile | /enabled\s+(false|\$false)/ |
sends | send-mailmessage,send-mgusermail | | -to
hands_over | register-scheduledtask,register-scheduledjob,new-scheduledtask | | -taskname
# keys and secrets
destroys | gpg,gpg2,gpgsm | /--delete-(secret|key)/ | $*
destroys | keytool | +delete /(^|\s)-delete\b/ | -alias
destroys | op,bw,pass,gopass,doppler,lpass,rbw,chamber,infisical | /(^|\s)(delete|rm|remove|purge|archive)(\s|$)/ | vault:{$-}
destroys | tar,cat,cpio | +dev /((^|\s)-\w{0,8}f|>|of)\s?\/dev\/(sd|hd|vd|xvd|nvme|disk|mmcblk)/ |
# macOS
destroys | tmutil delete/deletelocalsnapshots/disable/thinlocalsnapshots/deleteinprogress | | $*
destroys | defaults delete/delete-all | | defaults:{$-}
destroys | security delete-keychain/delete-generic-password/delete-internet-password/delete-certificate/delete-identity | | $*
destroys | dscl | /-delete\b/ | dscl:{$-}
destroys | sysadminctl | /-deleteuser\b/ | -deleteUser
exposes~ | csrutil disable | |
exposes~ | spctl | /--(master|global)-disable/ |
destroys | nvram | /(^|\s)-[cd]\b/ |
destroys~ | launchctl remove/unload/bootout/disable | | $*
# the machine
destroys~ | systemctl disable/mask | /backup|snapshot|\.timer\b/ | $*
destroys~ | zfs set | /snap\w*[=\s](false|off)/ | $*
destroys | journalctl | /--vacuum-(time[=\s](\d+\s*(us|ms|s|sec|m|min|h)\w*|[0-3]\s*d\w*)|size[=\s]\d{1,2}[km]|files[=\s][01])\b/ |
destroys | history | /(^|\s)-\w*[cw]/ |
destroys | logrotate | /(^|\s)(-\w*f|--force)/ | $*
destroys | lvreduce | | $*
destroys | lvresize | /(-L|--size)\s?-/ | $*
destroys | resize2fs | /\s\d+[kmgts]?$/ | $0
destroys~ | auditctl | /(^|\s)-[De]\b/ |
destroys~ | systemctl stop | /syslog|audit|firewall|falco|crowdsec|apparmor|osquery|fail2ban|backup/ | $*
destroys | lvconvert | /--merge/ | $*
destroys | zfs,zpool rollback/import | /rollback|-f\b/ | $*
exposes | chmod | /(^|\s)([0-7]?[0-7][0-7][2367]|[246][0-7]{3}|[ugoa]*[oa][ugoa]*\+[rwxXst]*w[rwxXst]*|\+[rx]*w\w*|[ugoa]*\+[rwx]*s[rwx]*)(\s|,|$)/ | path:$0
exposes | chown | /-\w*R.*\b(nobody|www-data|everyone)\b|-R\s+\d*:?99+\b/ | path:$0
exposes | setfacl | /\bo(ther)?:?:?[rwx-]*w|g?roup::[rwx-]*w|\bu(ser)?:(nobody|guest|www-data):[rwx-]*w/ | path:$0
exposes | ssh-copy-id | !/(^|\s)-n\b/ | $0
exposes | rclone link | !--unlink | $1
exposes | chattr | /(^|\s)-R?\s*-i/ | path:$0
exposes | usermod | /-\w*G\s+\S*\b(sudo|wheel|root|admin|docker|adm)\b|-u\s+0/ | $0
exposes | useradd | /-\w*G\s+\S*\b(sudo|wheel|root|admin|docker|adm)\b|(-u|--uid)\s+0\b/ | $0
exposes | gpasswd,adduser,addgroup | /\b(sudo|wheel|root|admin|docker)\b/ |
exposes | passwd | /(^|\s)(-d|--delete)\b/ | $*
exposes | visudo,setenforce | /\b0\b|permissive|-f/ |
exposes~ | ufw disable | |
exposes | ufw allow/route | /\bany\b|0\.0\.0\.0\/0|allow\s*$/ |
exposes | ufw default | /allow/ |
exposes | iptables,ip6tables | /-P\s+(INPUT|FORWARD)\s+ACCEPT|-A\s+(INPUT|FORWARD)\s+(-s\s+0\.0\.0\.0\/0\s+)?-j\s+ACCEPT/ |
exposes | firewall-cmd | /--(set-default-zone=trusted|panic-off|add-source=0\.0\.0\.0)/ |
exposes~ | aa-disable,aa-teardown | |
# network access
exposes | ngrok,localtunnel,lt,bore,pagekite | /\b(http|tcp|tls|start|local|\d{2,5})\b/ |
exposes | cloudflared tunnel | /--url|run/ | --url
exposes | tailscale funnel/serve | | $*
exposes | ssh,autossh | +r /(^|\s)-\w*R\s+\S*:/ | -R
exposes | nc,ncat,netcat,socat | +e/exec/nlvpe/lvpe/nlpe /(^|\s)-\w*e\s|exec:/ |
exposes | http-server,serve | /(^|\s)(\/|~)(\s|$)/ |
exposes | python | +http.server /http\.server/ /--directory\s+[\/~](\s|$)/ |
exposes | curl,wget,http,https,xh | +transfer/0x0/file/paste/pastebin/paste2/paste1/termbin/bashupload/temp/oshi/catbox/requestbin/webhook/ngrok /transfer\.sh|0x0\.st|file\.io|paste(bin)?\.\w+|termbin|bashupload|temp\.sh|oshi\.at|catbox\.moe|requestbin|webhook\.site|ngrok/ /(^|\s)(-F|--form|-T|--upload-file|-d|--data\S*|--post-file)\b|@/ |
# mail
sends | mail,mailx,mutt,sendmail,msmtp,ssmtp,swaks,neomutt,himalaya,s-nail,mailsend | !/(^|\s)(-e|-H|--help)(\s|$)/ | --to,-t,$0
sends | curl | +smtp/smtps /smtps?:\/\// | --mail-rcpt
# schedules and delegated work
destroys | osascript | /\b(delete|empty|erase)\b.*\b(file|folder|trash|disk|items?|posix)\b/ |
destroys | websocat,wscat | /"(op|action|operation|method|type|cmd)"\s*:\s*"\w*(delete|remove|destroy|purge|drop)/ |
destroys~ | stop-azvm,stop-ec2instance,stop-gceinstance,stop-azwebapp,stop-rdsdbinstance,restart-computer,suspend-vm | | -name,-instanceid,$1
destroys | yq | /(^|\s)(-i|--inplace)/ /(^|\s|')del\(\s*\.(\[\]|\.)?\s*\)|(^|\s)\.\s*=\s*(null|\{\}|"")/ | path:$0
destroys | rsync | +remove /--remove-(source|sent)-files/ /\s(\/tmp|\/var\/tmp|\/dev\/shm)\S*$/ !/(^|\s)-[a-z]*n[a-z]*\s/ | path:$1
destroys | puppet apply | /ensure\s*=>\s*'?absent/ | $*
hands_over | at,batch | +f /(^|\s)-\w*f\s/ | -f,$*
destroys~ | docker update | /--restart\s+no\b/ | $*
exposes | docker run/create | /--privileged|(-v|--volume)\s+\/:|--pid\s*host/ !/\brm\s/ | $1
# versions
sends | git send-email | !--dry-run | --to
destroys | git branch | /(^|\s)(-f|--force)\s|(^|\s)(?-i:-M)\b/ | $1
destroys | git branch | /(^|\s)-(df|fd)\b/ | $1
destroys | git checkout | /(^|\s)(?-i:-B)\s/ | -B
destroys | git switch | /(^|\s)(?-i:-C)\s/ | -C
destroys | git reset | /--keep/ | .
destroys | git rebase | /--root|--onto/ !/--(abort|continue|skip|quit)/ | .
destroys | git update-ref | /\S+\s+\S+/ !/(^|\s)-d\b/ | $1
destroys | git symbolic-ref | /(^|\s)(-d|--delete)\b/ | $*
destroys | git remote rm/remove/set-url | | $1
destroys | git notes remove/prune | | $*
destroys | git replace | /(^|\s)(-d|--delete)\b/ | $*
destroys | git lfs prune | /--force|-f\b/ | .
destroys~ | git submodule deinit | /(^|\s)(-f|--force|--all)\b/ | .
destroys | git lfs migrate | /\b(import|export)\b/ | .
destroys | git replace | /--(graft|edit)/ | .
destroys | git svn reset | | .
destroys | git fast-import | /--force/ | .
destroys | git worktree remove | /(^|\s)(-f|--force)\b/ | path:$1
destroys | git config | /gc\.\S*expire\S*\s+(now|0)|receive\.denyDeletes\s+false/ | .
destroys | bfg | | $*
destroys | java | +bfg /bfg\S*\.jar/ | .
destroys | p4 obliterate | | $*
destroys | hg strip/rollback/purge | | .
destroys | svn delete/rm/del/remove | /:\/\// | $1
destroys | jj abandon/op | /abandon|restore/ | $*
"""
_DATABASES = r"""
overwrites | sqlite3 | +restore/import /\.(restore|import\s+--?replace)\b/ | path:$1
overwrites | pg_restore | /(^|\s)(-\w*c\w*|--clean)\b/ | -d,--dbname
overwrites | mongorestore | /--drop/ | --db,-d,$0
overwrites | mysql,mariadb | +source /source\s+\S+\.(sql|dump)/ | $1
overwrites | mysql,mariadb,psql,sqlite3,clickhouse-client,sqlcmd | +sql/dump/gz/bak/zst/xz /(<|\s-[fi]|--file)\s.*(old|backup|bak\b|dump|restore|snapshot|previous|archive)/ !/test|dev\b/ | -d,--dbname,$1
overwrites | mysql,mariadb,psql,sqlcmd | +sql/dump/gz /\bprod\w*/ /(<\s(\S+\s+(-\S+\s+)*)?|(^|\s)-(f|i)\s+)\S+\.(sql|dump)/ | -d,--dbname,$1
destroys | surreal,fauna,elasticdump | /\b(remove|delete)\s+(table|database|namespace|where|\w+)|delete-database|--type\s+delete/ | --input,$*
destroys | swift delete | --all |
destroys | smbclient,lftp,sftp,ftp,ncftp,curlftpfs | /(^|[\s;"'])(del|mdel|rm|mrm|rmdir|deltree|delete|mdelete)\s/ | $*
overwrites | redis-cli | /\b(restore\s.*replace|--rdb-restore)\b/ |
destroys | redis-cli | /\b(config\s+set\s+(maxmemory|save|appendonly)|shutdown\s+nosave|script\s+flush|debug\s+(flush|reload)|swapdb|replicaof\s|slaveof\s)/ |
destroys | redis-cli | /(^|\s)p?expire(at)?\s+\S+\s+-?[0-5]?\d(\s|$)/ |
destroys | redis-cli | /(^|\s)(xtrim\s+\S+\s+maxlen\s+(~\s+)?0|ltrim\s+\S+\s+1\s+0|hdel|srem|zrem\w*|lrem|xdel|getdel|spop|bitop|sortstore|rename)(\s|$)/ |
exposes | redis-cli | /config\s+set\s+(protected-mode\s+no|requirepass\s*$|bind\s+0)|acl\s+setuser\s.*(nopass|\+@all)/ |
destroys | redis-cli eval/evalsha | /call\(\s*['"](del|unlink|flush\w*|expire)/ |
destroys | influx,influxd delete | | bucket:--bucket
destroys | influx | /\bdrop\s+(database|measurement|series|retention|shard)|delete\s+from/ |
destroys | influx bucket update | /retention|-r\b/ | --id,--name,-i,-n
destroys | cypher-shell,neo4j-shell | /\bdelete\s+\w|\bdrop\s+\w|\bremove\s+\w|\bset\s+\w+\s*=\s*\{\s*\}/ |
overwrites | cypher-shell,neo4j-shell | /\bmatch\s*\((?!.*\b(where|limit|create|merge|against)\b)[^{]*\sset\s+\w+(\.\w+\s*=|\s*\+=|:|\s*=\s*null)/ |
destroys | neo4j-admin | /--(force|overwrite-destination)|delete/ | $*
overwrites | neo4j-admin load/database | /load/ | $*
overwrites | etcdctl,etcdutl snapshot restore | | --data-dir
destroys~ | etcdctl,etcdutl member remove | | $*
overwrites | restic restore | /--(delete|overwrite)|--target\s+\// | --target,-t
destroys | restic forget | /--(prune|keep-last\s[01]\b|unsafe\S*)|forget\s+\w{6,}/ | $*
destroys | restic key remove | | $*
destroys | restic prune | | --repo,-r
destroys | borg delete/prune/recreate | !/--keep-(daily|weekly|monthly|yearly)\s[1-9]/ | borg:{$-}
destroys | kopia snapshot/manifest/repository expire/delete/remove | !/--dry-run/ | $*
destroys | docker system reset | | .
destroys | kubeadm,talosctl,rke,rke2,k0s,k0sctl,microk8s reset/remove/uninstall | | .
destroys | k3s-uninstall.sh,k3s-agent-uninstall.sh,k3s-killall.sh,rke2-uninstall.sh | | .
destroys | vgreduce | | $*
destroys | tarsnap | /(^|\s)(-d|--delete|--nuke)\b/ | -f
destroys | rdiff-backup | /remove-older-than|remove\s+increments/ | $0
destroys | proxmox-backup-client snapshot/backup/group forget/delete | | $*
overwrites | zfs receive/recv | /(^|\s)-\w*(?-i:F)/ | $0
destroys | duplicity remove-older-than/remove-all-but-n-full/cleanup | | $0
destroys | velero backup/schedule/restore delete | | $1
destroys | velero schedule/backup/backup-location/snapshot-location delete | | $*
overwrites | velero restore create | /--existing-resource-policy\s*update/ | --from-backup,$*
destroys | kafka-configs,kafka-configs.sh,kafka-topics,kafka-topics.sh | /(retention\.(ms|bytes|minutes)|delete\.retention\.ms|segment\.ms)[\s=]?-?\d{1,6}\b|cleanup\.policy[\s=]?delete/ | --topic,--entity-name
destroys | rpk topic alter-config | /(retention|cleanup)[\w.]*[\s=]?(-?\d{1,6}\b|delete)/ | $1
destroys | pulsar-admin namespaces/topics set-retention/set-message-ttl/set-*-ttl/terminate/truncate/clear-backlog/remove-* | | $*
destroys | confluent kafka topic delete/update | /delete|(retention|cleanup)[\w.]*[\s=]?(-?\d{1,6}\b|delete)/ | $*
destroys | arangosh | /\.(truncate|drop\w*|_drop\w*|remove\w*)\(/ |
destroys | rpk topic trim-prefix/delete | | $*
destroys | kafka-consumer-groups,kafka-consumer-groups.sh | /--(delete|reset-offsets)/ !/--dry-run/ | --group
destroys | kafka-delete-records,kafka-delete-records.sh | | --offset-json-file
destroys | kafka-acls,kafka-acls.sh | /--remove/ | --topic,--group
exposes | kafka-acls,kafka-acls.sh | /--add.*(user:\*|--operation\s+all)/ | --topic,--group
destroys | nodetool clearsnapshot/decommission/removenode/assassinate/truncatehints | | $*
destroys | sqlplus,rman | /delete\s+(noprompt\s+)?(backup|archivelog|obsolete)|drop\s+database/ |
destroys | s3cmd expire/setlifecycle/dellifecycle | | $0
destroys | lftp | /mirror\s.*--delete/ | $0
destroys | mc mirror | --remove | $2
destroys | mc ilm | /expire|remove|rm/ | $0
destroys~ | mc version suspend | | $*
exposes | mc anonymous/policy set/set-json | /public|download|upload/ | $0
exposes | mc admin policy attach/set | /consoleadmin|readwrite/ | --user,$*
destroys | rabbitmqctl delete_*/purge_*/reset/force_reset/clear_* | | queue:$*
destroys | rabbitmqctl set_policy | /ttl|max-length|expires/ | queue:$1
destroys | nats stream/str edit | /--max-(age|msgs|bytes)/ | $*
destroys | celery purge | | -A
destroys | rq empty | | $*
destroys | sst remove | | --stage,.
destroys | wrangler kv/r2/d1/queues/secret/pages/hyperdrive/vectorize/workflows/versions/containers | /\b(delete|purge)\b/ | wrangler:{$-}
destroys | wrangler delete | | --name,.
destroys | rails,rake | /\b(purge|drop|delete|destroy|wipe|flush|truncate)\w*job|[:_](purge|drop|delete|destroy|wipe|truncate)\b/i | $*
"""
_PACKAGES = r"""
sends | npm,pnpm publish | | $*,.
sends | yarn npm publish | | .
sends | yarn,bun,deno,jsr,lerna,nx,changeset,rush,vsce,ovsx,composer publish | | .
sends | pnpm -r publish | | .
destroys | npm,pnpm unpublish/deprecate | | $1
sends | npm dist-tag/access/owner | /add|public|grant|set/ | $*
sends | twine upload | | --repository,$*
sends | python | +twine/flit/poetry/hatch /(^|\s)-m\s+(twine\s+upload|flit\s+publish|build\s+&&|poetry\s+publish|hatch\s+publish|setup\.py\s+upload)/ | .
sends | python setup.py | /upload|register/ | .
sends | uv,poetry,hatch,flit,pdm,rye,maturin publish/upload | | .
sends | cargo publish | | -p,--package,.
destroys~ | cargo yank | !/--undo/ | $0
exposes | cargo owner | /--add/ | --add
exposes | gem owner | /(^|\s)(-a|--add)\b/ | $1
sends | crossplane xpkg push | | $1
sends | swift package-registry publish | | $1
hands_over | go,npx,uvx,pipx,bunx run/exec/@*/* | /[\s\/@_-](wipe|nuke|destroy|purge|obliterate)([@_\/-]|\s|$)/ | $*
sends | telegram-send,slack-cli,slackcat,toot,twurl,signal-cli,discord.sh,mastodon | !/(^|\s)(-h|--help)(\s|$)/ | $*
sends | twilio api:core:messages:create/api:core:calls:create | | --to
sends | slack chat send | | --channel
destroys | gem yank | | $1
sends | docker image/manifest/plugin push | | $0
sends | docker build/buildx | /--push\b/ | -t,--tag
sends | docker,podman,buildah,nerdctl,helm push | | $0
sends | skopeo copy/sync | /docker:\/\/\S+\s+.*docker:\/\// | $0
destroys | skopeo,crane,regctl,oras delete | | $*
destroys | oras,regctl manifest/tag/image/blob delete/rm | | $*
overwrites | crane,regctl,oras tag/copy/push/cp/append/mutate | | $*
sends | helm chart/cm-push push/* | | $0
sends | mvn,mvnw deploy/release:perform/nexus-staging:release | | .
sends | gradle,gradlew publish*/uploadArchives/bintrayUpload/closeAndRelease* | | .
sends | sbt publish*/+publish*/sonatype* | | .
sends | lein,clj deploy/release | | .
sends | dotnet nuget push | | $1
destroys | dotnet nuget delete | | $*
sends | gem,nuget push | | $1
sends | dart,flutter pub publish | | .
destroys | vsce unpublish/delete-publisher | | .
sends | goreleaser release | !--snapshot | .
sends | fastlane deliver/release/supply/pilot/beta/upload_* | | $*,.
sends | fastlane ios/android/mac deliver/release/supply/pilot/beta/deploy/upload_* | | .
sends | eas,expo submit/publish | | .
sends | pod trunk push | | $1
sends | luarocks,conan,conan2 upload | | $1
sends | mix hex.publish | | .
sends | anaconda upload | | $*
sends | cpan-upload,release-it,semantic-release | | .
sends | huggingface-cli,hf upload/upload-large-folder | | $1
destroys | huggingface-cli,hf repo delete | | $*
sends | kaggle datasets/kernels/competitions create/version/push/submit | | $*
sends | snapcraft upload/release/push | | $*
sends | flatpak build-commit-from/publish | | $*
sends | brew bump-formula-pr/bump-cask-pr | | $*
sends | wrangler,vercel deploy/publish | | .
sends | wrangler pages/versions deploy | | .
sends | vercel | --prod | .
destroys | vercel remove/rm | | $*
destroys | vercel dns/domains/env/certs/alias rm/remove | | vercel:{$-}
sends | netlify deploy | --prod | .
sends | netlify deploy | /(^|\s)-p\b/ | .
sends | firebase deploy/hosting:channel:deploy | | --only,.
destroys | firebase hosting:disable/functions:delete/firestore:delete/database:remove/projects:* | | $*
sends | fly,flyctl deploy | | -a,.
sends | heroku container:release | | -a,--app
destroys~ | heroku ps:scale | /0\b/ | -a,--app
destroys | heroku pg:*/apps:*/addons:*/domains:*/pipelines:*/certs:* | /:(reset|destroy|remove|restore|killall|delete|clear|promote)/ | -a,--app
destroys | heroku config:unset/config:remove | | $*
overwrites | heroku rollback/releases:rollback | | -a,--app
destroys | vercel blob del/delete/rm | | $*
destroys | netlify api | /^api\s+delete\w/ | $*
overwrites | vercel rollback | | $1,.
destroys | netlify env:unset | | $*
destroys | fly,flyctl secrets/config unset | | $*
destroys~ | fly,flyctl scale count | /count\s+0\b/ | -a,--app,.
destroys | fly,flyctl machine/machines/m/volume/volumes/vol/ips/certs/postgres/pg/mpg/redis/storage/tokens/wireguard destroy/remove/delete/release/detach/revoke/rm | | $*
destroys~ | heroku maintenance:on | | -a,--app
sends | git push | /(^|\s)(heroku|dokku|production|live)\s/ | $1
sends | surge | | $0
sends | hugo deploy | !--dryRun | .
sends | xcrun altool | +upload /--upload-(app|package)/ | -f,--file
sends | gh-pages,mike,mkdocs | +deploy/d /gh-deploy|deploy|-d\s/ !/--ignore-version-none/ | .
sends | eb,serverless,sls,cdk,sam,copilot,amplify,railway,render,dokku,kamal,cap deploy/publish/release/up | /--(prod|production|stage\s*prod|env\w*\s*prod)|production|prod\b|(^|\s)(publish|release)(\s|$)/ | .
sends | hub release create | !/--draft/ | $1
exposes | gh repo/ssh-key/gpg-key deploy-key/add | !/\b(list|delete)\b/ | $*
exposes | gitlab project-member/group-member create/update/save | | --user-id
sends | gh release create/upload/edit | !/--draft/ | $1
destroys | gh release delete/delete-asset | | $1
destroys | gh repo delete/archive/rename/sync | !/^repo\ssync(?!.*force)/ | $*
destroys | gh issue/pr/run/gist/label/secret/variable/cache/ssh-key/gpg-key/codespace/ruleset/project delete/delete-all/transfer/lock | | $*
sends | gh pr merge | --admin | $*
destroys~ | gh workflow disable | | $*
exposes | gh repo edit | /--visibility\s+public|--(template|allow-forking)\b/ | $1
exposes | gh,glab repo create | --public | $1
exposes | glab repo update/create | /public/ | $1
exposes | gh gist create | /--public|(^|\s)-\w*p\b/ | $*
exposes | gh,glab api | /collaborators|private\s*=?\s*false|visibility\s*=?\s*public|\b(permission|role)=(admin|owner)/ !/(^|\s)(GET|DELETE)(\s|$)/ | $1
overwrites | gh api | /git\/refs.*force\s*=?\s*true/ | $1
hands_over | gh api | /\/(dispatches|rerun)\b.*(destroy|delete|drop|purge|wipe|teardown)|(destroy|delete|drop|purge|wipe|teardown)\S*\/dispatches/ | $1
"""
TABLE = rows.table(WHOLE_STACKS + _SYSTEM + _DATABASES + _PACKAGES + OTHER_HANDS + SERVICES)


_TOGETHER = ("out file", "new item force", "move item", "type nul", "copy nul", "copy null")
"""Words of Windows commands that have their own readers."""
_NEEDS = dict(TABLE.needs)
for _first, *_others in map(str.split, _TOGETHER):
    _NEEDS[_first.encode()] = _NEEDS.get(_first.encode(), frozenset()) | {frozenset(map(str.encode, _others))}
_ALONE = frozenset(name for name, groups in _NEEDS.items() if frozenset() in groups) | TABLE.anywhere
_NEEDED_WORDS = {name: frozenset[bytes]().union(*groups) for name, groups in _NEEDS.items() if name not in _ALONE}
WORDS = frozenset((*_ALONE, *_NEEDS))
"""The words that select candidate rows: names of programs, and options of any program."""


def may_act(watched: frozenset[bytes], words: Sequence[bytes]) -> bool:
    """Return whether the words of a command line may match a row; no false negatives. `watched` are those in `WORDS`."""
    if not _ALONE.isdisjoint(watched):
        return True
    for name in watched:
        needed = _NEEDED_WORDS.get(name)
        if needed is not None and (present := needed.intersection(words)):
            for group in _NEEDS[name]:
                if group <= present:
                    return True
    return False


def acts(invocation: Invocation) -> Iterator[Destruction]:
    """Return the effects of a program by the table."""
    return rows.acts(TABLE, invocation)

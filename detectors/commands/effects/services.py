"""Cloud, cluster, DNS and payment command lines, jobs elsewhere and whole stacks: the second half of the table of programs.

Misses: services with other names of operations; templates and manifests in files.
"""

SERVICES = r"""
# aws: settings that destroy
destroys | aws * put-bucket-lifecycle*/put-lifecycle-configuration/put-lifecycle-policy | | --bucket,--repository-name
destroys~ | aws s3api put-bucket-versioning | /suspended/ | --bucket
destroys | aws logs put-retention-policy | /--retention-in-days\s+[0-7]\b/ | --log-group-name
destroys | aws rds modify-db-instance/modify-db-cluster/modify-global-cluster | /--backup-retention-period\s+[01]\b|--no-deletion-protection|--no-enable\S*/ | --db-instance-identifier,--db-cluster-identifier
destroys~ | aws * modify-*/update-*/set-*/put-* | /--no-(enable\S*|deletion-protection|disable-api-termination|versioning|backup\S*|protect\S*)/ |
destroys | aws dynamodb update-continuous-backups | /enabled\s?=?\s?false/ | --table-name
destroys | aws dynamodb update-time-to-live | /enabled\s?=?\s?true/ | --table-name
destroys | aws kinesis decrease-stream-retention-period | | --stream-name
destroys~ | aws autoscaling update-auto-scaling-group/set-desired-capacity | /--(desired-capacity|max-size)\s+0\b/ | --auto-scaling-group-name
destroys~ | aws * update-*/set-*/modify-* | /(desired\w*|max-?size)\W{1,3}0\b/ | --nodegroup-name,--auto-scaling-group-name,--service
destroys | aws dynamodb batch-write-item/transact-write-items | /DeleteRequest|"Delete"/ |
destroys~ | aws ecs update-service | /--desired-count\s+0\b/ | --service
destroys~ | aws * stop-*/disable-*/suspend-*/detach-*/disassociate-*/revoke-*/deactivate-*/reject-*/pause-*/admin-disable-* | !/^(\S+\s)?(logs|glue|ssm)\sstop-(query|session)/ |
destroys | aws * remove-*/reset-*/cancel-*/deprovision-*/batch-delete-*/reboot-*/failover-*/replace-*/force-*/purge-*/release-*/close-account | !/^\S+\sremove-tags/ |
overwrites | aws * put-bucket-*/put-*-configuration/update-*-configuration | /\[\s*\]|\s\{\s*\}/ | --bucket
destroys | aws organizations close-account/leave-organization | | --account-id
exposes | aws s3 website | | $1
spends | aws * accept-agreement-*/accept-*-quote*/accept-reserved-* | |
destroys | gcloud firestore fields ttls | /enable-ttl/ | $*
exposes | kubectl port-forward | /--address\s+0\.0\.0\.0/ | $*
overwrites | aws ssm put-parameter | --overwrite | --name
overwrites | aws secretsmanager put-secret-value/update-secret | | --secret-id
destroys | aws sqs set-queue-attributes | /retentionperiod\W+\d{1,3}\b/ | --queue-url
destroys~ | aws cloudtrail stop-logging | | --name
overwrites | aws cloudformation update-stack/deploy/execute-change-set/rollback-stack | | --stack-name
overwrites | aws dynamodb/rds/redshift/backup/fsx/s3api restore-*/start-restore-job | | --target-table-name,--db-instance-identifier,--resource-type
overwrites | aws cloudfront create-invalidation | | --distribution-id
destroys | aws s3 sync/mv | /--delete\b/ | $2
destroys~ | aws s3 mv | /s3:\/\/([^\/\s]+)\S*\s+(--\S+\s+)*(?!-|s3:\/\/\1(\/|\s|$))\S/ | $1
destroys~ | gsutil mv | /gs:\/\/([^\/\s]+)\S*\s+(?!-|gs:\/\/\1(\/|\s|$))\S/ | $1
destroys~ | gcloud storage mv | /gs:\/\/([^\/\s]+)\S*\s+(?!-|gs:\/\/\1(\/|\s|$))\S/ | $1
destroys~ | rclone move/moveto | !/\bmove(to)?\s+\/(var\/)?(tmp|dev\/shm)\// | $1
destroys~ | mc,s3cmd,s5cmd mv | | $1
destroys~ | az storage blob/file/fs | /\bmove\b/ | $*
destroys | aws * update-*/put-*/set-*/modify-*/create-* | /(retention|expir\w*|delete-?after|ttl|lifecycle)[\w-]*['":=\s{]+(\w+['":=\s]+)?[0-7]\b/ |
destroys~ | aws lambda put-function-concurrency | /concurren\S*\s+0\b/ | --function-name
# aws: exposes
exposes | aws * put-bucket-policy/put-resource-policy/set-identity-policy/put-key-policy/put-repository-policy | | --bucket,--key-id,--repository-name
exposes | aws s3api/s3/s3control put-*-acl/cp/mv/sync/put-object/create-bucket | /--acl\s+(public\S*|authenticated-read)|--grant-(read|write|full)\S*\s+\S*(allusers|authenticatedusers)/ | --bucket,$2
exposes | aws * put-*policy*/set-*policy*/add-permission/create-policy*/add-layer-version-permission | /principal['"\s:{]+(aws['"\s:]+)?\*|principal\s+['"]?\*|"action"\s*:\s*"\*"|effect"?:\s*"?allow[^}]*"resource"\s*:\s*"\*"/ | --bucket,--function-name,--user-name,--role-name,--policy-name
exposes | aws s3api/s3control put-public-access-block | /false/ | --bucket,--account-id
exposes | aws s3api/s3control delete-public-access-block | | --bucket,--account-id
exposes | aws ec2 authorize-security-group-*gress | /0\.0\.0\.0\/0|::\/0|--protocol\s+-1/ | --group-id,--group-name
exposes | aws ec2/rds modify-*-attribute | /\b(group-names|values-to-add)\s+\S*all\b|"?group"?\s*[:=]\s*"?all/ | --snapshot-id,--image-id,--db-snapshot-identifier
exposes | aws * modify-*/create-* | /--publicly-accessible\b/ | --db-instance-identifier,--cluster-identifier
exposes | aws iam attach-*-policy | /administrator|fullaccess|poweruser|iamfull/ | --user-name,--role-name,--group-name
exposes | aws iam add-user-to-group | /admin|root|power/ | --user-name
exposes | aws iam create-access-key/create-login-profile/update-assume-role-policy | | --user-name,--role-name
exposes | aws lambda create-function-url-config | /none/ | --function-name
# aws: spends, sends
spends | aws ec2 run-instances/request-spot-* | /--(count|instance-count)\s+([5-9]\b|\d{2,})|\b(p\d\w*|g\d\w*|x\d\w*|u-\w+|trn\d\w*|inf\d\w*)\.\d*\w*(24|32|48|96|metal)\w*/ | --instance-type,--image-id
exposes | aws s3 presign | /--expires-in\s+\d{6,}/ | $1
spends | aws * accept-agreement | |
spends | aws * purchase-*/create-savings-plan/register-domain/renew-domain/transfer-domain/subscribe-to-* | | --domain-name,--reserved-instances-offering-id,--savings-plan-offering-id
sends | aws ses/sesv2 send-* | | --destination,--from
sends | aws sns publish/publish-batch | | --topic-arn,--phone-number
sends | aws pinpoint send-*/create-campaign | | --application-id
# DNS
destroys | aws route53 change-resource-record-sets | | --hosted-zone-id
overwrites | aws route53domains update-domain-nameservers/transfer-domain*/disable-domain-* | | --domain-name
overwrites | gcloud dns record-sets update/create | /update/ | $*
destroys | gcloud dns record-sets transaction | /\b(remove|execute)\b/ | --zone
overwrites | az network dns | /\b(update|remove-record|import)\b/ | -n,--name
destroys | flarectl,cli4,cloudflare dns/zone/zones delete/purge/d | | --id,--zone
overwrites | flarectl dns update/create-or-update | | --id,--zone
destroys | doctl compute/databases/kubernetes/apps/projects/registry/vpcs delete/destroy/rm | | $*
destroys | doctl compute/kubernetes * delete/destroy/rm | | $*
destroys | doctl compute domain records | /\b(delete|rm)\b/ | $2
destroys | nsupdate | /\b(update\s+)?delete\b/ |
overwrites | nsupdate | /\bupdate\s+add\b/ |
destroys | rndc delzone/flush | | $*
destroys | pdnsutil,pdns_control delete-*/remove-*/clear-*/replace-* | | $*
overwrites | dnscontrol push | | .
overwrites | octodns-sync | --doit | .
destroys | namecheap,porkbun,gandi,lego,route53,cli53 | /\b(delete|rrdelete|rrpurge|remove|revoke)\b/ | $*
# gcloud, gsutil, bq
destroys | gsutil lifecycle set | | $0
destroys~ | gsutil versioning set | /\boff\b/ | $0
destroys | gsutil retention clear/set | | $0
exposes | gsutil iam ch/set | /all(authenticated)?users/ | $0
exposes | gsutil acl ch/set | /all(authenticated)?users|public/ | $0
exposes | gsutil defacl ch/set | /all(authenticated)?users|public/ | $0
exposes | gsutil * | /(^|\s)-a\s+public/ | $0
destroys | gcloud storage buckets/objects update | /--lifecycle-file|--no-versioning|--soft-delete-duration\s+0|--clear-(soft-delete|retention|lifecycle)|--no-\S*retention|--retention-period/ | $1
destroys | gcloud * * patch/update | /--no-(backup|deletion-protection|enable-\S*|retain\S*)|--retention-days\s+[0-7]\b|--max-instances\s+0|--backup-retention\S*\s+0/ | $*
destroys | gcloud * buckets update | /--retention-days\s+[0-7]\b/ | $1
destroys~ | gcloud * disable/stop/suspend/reset/pause | | $*
destroys~ | gcloud * * disable/stop/suspend/reset/deallocate/abandon/pause | | $*
destroys~ | gcloud container/compute * resize | /--(num-nodes|size)\s+0/ | $*
destroys~ | gcloud compute * * resize | /--size\s+0/ | $*
overwrites | gcloud sql backups restore | | --restore-instance
overwrites | gcloud sql import/instances sql/csv/bak/restore-backup/clone | | $1
destroys | gcloud * * remove-*/clear-*/detach-*/delete-*/abandon-*/revoke-*/set-cleanup-*/invalidate-* | !/\b(tags|labels)\b/ | $*
destroys | gcloud pubsub subscriptions/snapshots seek | | $*
destroys | gcloud * * destroy/wipe/purge | | $*
destroys | gcloud * * * destroy/disable | | $*
exposes | gcloud * add-iam-policy-binding | /all(authenticated)?users|roles\/(owner|editor)|admin\b/ | $1
exposes | gcloud * * add-iam-policy-binding | /all(authenticated)?users|roles\/(owner|editor)|admin\b/ | $1
overwrites | gcloud * set-iam-policy | | $1
overwrites | gcloud * * set-iam-policy | | $1
exposes | gcloud compute firewall-rules create/update | /0\.0\.0\.0\/0/ | $1
exposes | gcloud * deploy | /--allow-unauthenticated/ | $1
exposes | gcloud * instances patch/create | /--authorized-networks\s+\S*0\.0\.0\.0\/0/ | $1
exposes | gcloud iam service-accounts keys | /\bcreate\b/ | --iam-account
spends | gcloud compute instances create/bulk | /--count\s+([5-9]\b|\d{2,})|highgpu|ultragpu|megagpu|-(96|128|192|208|416)\b/ | $*
destroys | bq update/mk | /--(default_table_|default_partition_|)expiration\s+\d+|--time_partitioning_expiration\s+\d+/ | $0
overwrites | bq query | /--replace/ | --destination_table
overwrites | bq load/cp | /--replace|(^|\s)-f\b/ | $1
# az
destroys | az storage account/blob | /--enable-(delete|container-delete)-retention\s+false|--enable-versioning\s+false|management-policy\s+create/ | --account-name,-n
destroys | az * * ltr-policy/backup-policy/str-policy set | | -n,--name
destroys | az * * update | /--\S*retention\S*\s+[0-3]\b|--\S*(backup|versioning|soft-delete|purge-protection)\S*\s+(false|disabled|off)/ | -n,--name
destroys | az storage blob | /(delete-policy|versioning|retention)\S*\s.*--enable\s+false/ | --account-name
destroys | az cosmosdb sql/mongodb/cassandra * update | /--ttl\s+\d{1,5}\b/ | -n,--name
destroys~ | az * scale | /--(node-count|new-capacity|instance-count|min-count)\s+0\b/ | -n,--name
destroys | az monitor log-analytics | /--retention-\w+\s+\d{1,2}\b/ | -n,--name
destroys~ | az * stop/deallocate/restart/disable/revoke | | -n,--name
destroys~ | az * * stop/deallocate/disable/revoke/remove | | -n,--name
overwrites | az * * restore/import/failover | | -n,--name,--dest-name
overwrites | az deployment group/sub create | /--mode\s+complete/ | -n,-g,--resource-group
exposes | az storage container set-permission/create | /--public-access\s+(blob|container)/ | --name,-n
exposes | az storage account update/create | /--allow-blob-public-access\s+true|--default-action\s+allow/ | -n,--name
exposes | az network nsg rule | /(create|update).*(source-address-prefix\w*\s+(\*|any|internet|0\.0\.0\.0\/0))/ | -n,--name,--nsg-name
exposes | az role assignment create | /owner|contributor|administrator/ | --assignee
exposes | az * update | /--default-action\s+allow|--public-network-access\s+(enabled|true)/ | -n,--name
exposes | az * * firewall-rule | /0\.0\.0\.0.*255\.255\.255\.255|0\.0\.0\.0\s.*0\.0\.0\.0/ | -n,--name,-s
exposes | az keyvault set-policy | /permissions\s(?!--).*\b(all|purge|delete|set)\b/ | -n,--name
exposes | az ad app permission | /admin-consent|grant/ | --id
exposes | az ad app/sp credential | /reset|create/ | --id
# clusters
destroys~ | kubectl patch | /"?replicas"?\s*:\s*0|suspend"?\s*:\s*true|finalizers"?\s*:\s*(null|\[\s*\])|reclaimpolicy"?\s*:\s*"?delete|"op"\s*:\s*"remove"|replicas"[^}]*"value"\s*:\s*0/ | $*
destroys~ | kubectl autoscale | /--min\s+0/ | $*
destroys~ | kubectl cordon/taint | !/-\s*$/ | $*
destroys~ | kubectl rollout undo | | $*
destroys | kubectl apply | /--prune\b/ | -f,-k
destroys | kubectl annotate/label | /reclaim|retain|prevent|ttl|janitor|expire/ | $*
destroys~ | kubectl set env | /\s\w+-(\s|$)/ | $*
exposes | kubectl create clusterrolebinding/rolebinding | /cluster-admin|system:(unauthenticated|anonymous)|--clusterrole\s+(admin|edit)/ | $*
exposes | kubectl label ns/namespace/namespaces | /enforce=privileged/ | $2
exposes | kubectl expose | /loadbalancer|nodeport|--external-ip/ | $*
exposes | kubectl patch svc/service | /loadbalancer|nodeport/ | $*
hands_over | kubectl create job/cronjob | /\s--\s.*\b(rm\s+-\w*[rf]|drop\s|delete|truncate|mkfs|wipe|purge|dropdb)/ | $*
exposes | kubectl,oc adm policy | /cluster-admin|add-scc-to\S*\s+privileged/ | $*
destroys~ | helm rollback | | $1
destroys~ | helm upgrade | /replica\w*\s?=?\s?0\b/ | $1
destroys~ | docker service scale | /=0\b/ | $*
destroys~ | docker service/stack/swarm/node rm/update/leave/demote/remove | /rm|remove|leave|--replicas\s+0|drain/ | $*
destroys | argocd app/proj/repo/cluster/appset delete/rm | | $*
destroys | argocd app sync | /--prune|--force|--replace/ | $*
destroys~ | argocd app rollback/terminate-op | | $*
destroys | flux delete/uninstall/suspend | | $*
destroys | nomad job stop/revert | | $*
destroys~ | nomad job scale | /\s0(\s|$)/ | $*
destroys | nomad system gc | | .
destroys | nomad namespace/volume/acl delete/deregister | | $*
destroys~ | vault operator seal/step-down | | .
destroys | vault operator rekey/raft | /rekey|remove-peer|snapshot\s+restore/ | .
destroys | vault lease/token/auth revoke/disable | | $*
exposes | vault policy write | /root|admin|\bsudo\b/ | $1
destroys | consul operator/acl/config/intention/peering/keyring | /\b(delete|remove-peer|remove)\b/ | $*
destroys | consul snapshot restore | | $*
destroys | terraform apply | /-replace|(^|\s)-destroy/ | -replace,--replace,.
destroys~ | terraform apply | /(count|size|replicas|capacity|instances|nodes)"?\s*=\s*"?0\b/ | .
destroys | terraform taint | | $*
overwrites | terraform state push/mv/replace-provider | | .
destroys~ | terraform force-unlock | | $1
overwrites | pulumi up/update | /--(replace|target-replace)\b/ | -s,--stack,.
overwrites | pulumi refresh/import/cancel | /(^|\s)(-y|--yes|--skip-preview|-f)\b/ | -s,--stack,.
destroys | pulumi state/stack/env delete/rm/unprotect/upgrade | | $*
destroys | hcloud,scw,linode-cli,vultr-cli,oci,ibmcloud,openstack,exo,civo,upctl,yc,aliyun,tccli,ovhcloud,ionosctl,equinix,metal | /(^|[\s-])(delete|terminate|destroy|rebuild|remove|rm|purge|reset|release|wipe|reinstall)\b/ !/(^|\s)(list|ls|get|show|view|describe)(\s|$)/ |
destroys~ | hcloud,scw,linode-cli,vultr-cli,oci,ibmcloud,openstack,exo,civo,yc | /(^|\s)(poweroff|shutdown|stop|suspend|shelve|halt|pause|detach)\b/ |
destroys | virsh undefine/destroy/vol-delete/pool-delete/snapshot-delete/snapshot-revert/vol-wipe/net-destroy | | $1
destroys | vboxmanage,VBoxManage unregistervm/closemedium/snapshot/controlvm | /--delete|\b(delete|restore|poweroff)\b/ | $1
destroys | vagrant destroy | | .
destroys | qm,pct,pvesh destroy/delete/rollback/reset/delsnapshot | | $1
destroys | lxc,incus,multipass delete/purge/restore | | $*
destroys | limactl,colima,orb,orbctl,k3d,kind,minikube,rdctl delete/reset/factory-reset/uninstall | | $*
destroys | supabase,planetscale,pscale,neonctl,neon,turso,railway,render,upstash,cockroach,ccloud,confluent,aiven,avn,atlas | /\b(delete|destroy|drop|reset|terminate|rm|truncate|purge|down)\b/ !/\b(list|get|show|local)\b/ |
destroys | ipfs pin/files/repo/key rm/gc | | $*
destroys | b2 delete-*/rm/delete_*/hide-file/sync | /delete|rm|hide/ | $*
destroys | b2 bucket/file delete/rm/hide | | $*
destroys | databricks fs/clusters/jobs/workspace/secrets/pipelines rm/delete/permanent-delete/delete-scope/reset | | $1
destroys | pm2,supervisorctl,forever delete/remove/kill/stopall | | $1
destroys | snow object drop | | $*
# money
spends~ | az,aws,gcloud,kubectl,oc,eksctl,doctl | +replicas/capacity/nodes/count /--(\S*replicas|\S*capacity|\S*num-nodes|node-count|nodes)\s+\d{3,}\b/ | $*
spends | doctl compute droplet create | /^compute\sdroplet\screate\s([^-\s]\S*\s+){5}/ | $*
spends | vastai create instance | | $1
spends | runpodctl create pod/pods | | $*
spends | sky launch | !--dryrun | $*
spends | stripe refunds/payouts/charges/transfers/payment_intents/subscriptions/invoices/topups create/pay/capture/confirm/update/cancel/finalize_invoice/send_invoice | | $*
spends | stripe post | /(refunds|payouts|charges|transfers|payment_intents|topups)/ | $1
spends | bitcoin-cli,litecoin-cli,dogecoin-cli,monero-wallet-cli,electrum,lncli,lightning-cli | /\b(send\w*|pay\w*|transfer|sweepall|bumpfee|withdraw)\b/ |
spends | solana,spl-token,near,eth,eth-cli,geth,ethkey,tezos-client,cardano-cli,gaiad,aptos,sui,starkli | /\b(transfer|send\w*|pay|delegate-stake|withdraw-stake|burn|mint)\b/ |
spends | cast,forge send/create/publish | | $1
spends | paypal,plaid,wise,revolut,coinbase,kraken,binance,alpaca,ib,robinhood | /\b(send|pay\w*|transfer\w*|refund\w*|withdraw\w*|buy|sell|order\w*|trade)\b/ !/\b(list|get|show)\b/ |
# options with the same meaning in any program
destroys | * retention | !/\b(get|list|describe|show)-?/ /--[\w-]*retention[\w-]*\s+[01]\b/ |
destroys~ | * replicas capacity instances nodes | /--(\S*replicas|max-(capacity|size|instances|nodes)|desired-\S+|num-nodes|set\s+\S*replica\w*)\s+0\b/ !/(^|\s)kubectl/ |
destroys~ | * protection | /--no-[\w-]*protection|--[\w-]*protection[\w-]*\s+(false|off|disabled|inactive)/ |
destroys~ | * versioning | /--no-versioning|--[\w-]*versioning\s+(false|off|suspended|disabled)/ |
destroys~ | * backup backups | /--no-[\w-]*backups?\b|--[\w-]*backups?(-enabled)?\s+(false|off|disabled)/ |
destroys | * delete-removed delete-destination delete-unmatched delete-extra | /--delete-\S+/ !/--delete-\S+\s+(false|none|prompt)/ | $0
destroys | * wipe destroy erase delete-all drop-all remove-all purge-all purge-data | /(^|\s)--(wipe\S*|destroy\S*|erase\S*|(delete|drop|remove|purge)-(all|data))(\s|$)/ |
destroys | * ttl | /--[\w-]*ttl[\w-]*\s+[01]\b/ |
exposes | * public visibility | /--visibility\s+public|--acl\s+public|--access\s+public|--public-access\s+(true|on|enabled)/ |
exposes | * cidr ranges ips | !/\b(list|get|describe|show|delete|revoke|remove)\b/ /--\S*(cidrs?|ranges|ips)\s+(0\.0\.0\.0\/0|::\/0)/ |
"""
OTHER_HANDS = r"""
destroys | istioctl,linkerd,cilium,kubefed uninstall/purge | | .
# jobs elsewhere with a destructive name
hands_over | gh workflow run | /\b(destroy|delete|drop|purge|wipe|teardown|nuke|remove|reset|truncate|prod\w*)\b|(destroy|delete|drop|purge|wipe|teardown|nuke)/ | $1
hands_over | glab ci/pipeline/job/schedule run/trigger | /destroy|delete|drop|purge|wipe|teardown|nuke|truncate/ |
hands_over | jenkins-cli,circleci,buildkite-agent,drone,tkn,argo,spacelift,woodpecker,travis | /destroy|delete|drop|purge|wipe|teardown|nuke|truncate/ |
hands_over | airflow,prefect,dagster,luigi,celery,rq,sidekiq,temporal,tctl,nomad,conductor | /\b(trigger|run|start|call|launch|execute|enqueue|dispatch|submit|backfill|signal)\b/ /[\s._\/-](destroy|delete|drop|purge|wipe|teardown|nuke|truncate|erase)\w*|(destroy|delete|drop|purge|wipe|truncate|erase)[_-]/ |
hands_over | aws lambda/stepfunctions/codebuild/codepipeline/batch/events/ecs invoke/invoke-async/start-execution/start-build/start-pipeline-execution/submit-job/put-events/run-task | /delete|destroy|drop|purge|wipe|truncate|erase|teardown/ | --function-name,--state-machine-arn,--project-name,--name
hands_over | gcloud functions/workflows/scheduler/run/composer call/run/execute/jobs/environments | /delete|destroy|drop|purge|wipe|truncate|erase|teardown/ !/\b(list|describe)\b|^functions\sdelete/ | $*
hands_over | az functionapp/logic/automation/pipelines/containerapp | /(invoke|run|start|trigger|create).*(delete|destroy|drop|purge|wipe|truncate|erase)/ !/^\S+\s+(list|show)\b/ |
hands_over | ansible-playbook,salt-run,chef-client,puppet,fab,capistrano,bolt | /destroy|delete|drop|purge|wipe|teardown|nuke|truncate|reset|remove/ !/--(check|syntax-check|list-tasks|list-hosts)/ | $*
hands_over | aws ssm send-command | /\brm\s+-\w*[rf]|drop\s|delete|truncate|mkfs|shutdown|wipe|destroy/ | --targets,--instance-ids
hands_over | az vm/vmss run-command | /\brm\s+-\w*[rf]|drop\s|delete|truncate|mkfs|shutdown|remove-item|wipe|destroy/ | -n,--name
"""
WHOLE_STACKS = r"""
# stacks, accounts and secrets
destroys! | pulumi destroy/down/dn | !-h | stack:-s,--stack,.
destroys! | pulumi stack rm | !-h | stack:$*,-s,--stack,.
destroys! | cdk,cdktf,sam,serverless,sls destroy/remove/delete | !-h | stack:$*,--stack-name,--stage,-s,.
destroys! | eksctl delete cluster | | stack:$*,-n,--name,.
destroys! | heroku apps:destroy/pg:reset/addons:destroy | | stack:-a,--app,$*,.
destroys! | fly,flyctl apps/volumes destroy | | stack:$*,-a,--app
destroys! | fly,flyctl destroy | | stack:$*,-a,--app,.
destroys! | doctl databases delete | | stack:$*
destroys! | doctl compute droplet/volume delete | | stack:$*
destroys! | firebase firestore:delete/database:remove | | stack:$*,--project,.
destroys! | drizzle-kit push | --force | database:.
destroys! | prisma db push | --accept-data-loss | database:.
destroys! | taskkill | /\/im\s+(node|bun|deno|python\w*|py|java|code|cursor|docker\w*|wsl\w*|explorer|svchost)\.exe/ | process:/im,//im
destroys! | vault secrets/auth/audit disable | | secret:$*
destroys | vault delete | | secret:$*
destroys | vault kv delete/destroy/metadata | !/^kv\smetadata\s(?!delete)/ | secret:$0
destroys | rabbitmqadmin delete/purge queue/vhost/exchange | | queue:$*
destroys | influx bucket delete | | bucket:--name,-n,--id,-i
destroys | netlify sites:delete | | site:$*
destroys | airflow dags delete | | dag:$*
destroys | consul kv delete | | key:$*
destroys | dropuser,userdel,deluser | | user:$*
destroys | groupdel,delgroup | | group:$*
"""

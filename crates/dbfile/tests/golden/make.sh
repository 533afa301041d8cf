#!/bin/sh
# Makes etcd.snapshot.db: a snapshot of a real etcd 3.7.3 that has a record of nearly every kind.
# Usage, from this folder: PATH=<folder of etcd and etcdctl>:$PATH ./make.sh
# It prints the answer of HashKV. Ids and hashes of passwords differ from run to run: the test reads them from the file.
set -eu
dir=$(mktemp -d)
url=http://127.0.0.1:23790
etcd --name golden --data-dir "$dir/data" --log-level fatal --quota-backend-bytes 262144 \
    --listen-client-urls $url --advertise-client-urls $url \
    --listen-peer-urls http://127.0.0.1:23800 --initial-advertise-peer-urls http://127.0.0.1:23800 \
    --initial-cluster golden=http://127.0.0.1:23800 &
etcd=$!
trap 'kill $etcd; rm -rf "$dir"' EXIT
ctl() { etcdctl --endpoints $url "$@" >/dev/null 2>&1; }
until ctl endpoint health; do :; done

# Three transactions of 50 puts: enough for branch pages.
for hundred in 0 1 2; do
    {
        echo
        n=0
        while [ $n -lt 50 ]; do
            printf 'put key/%d%02d value-%d\n' $hundred $n $n
            n=$((n + 1))
        done
        echo
        echo
    } | ctl txn
done
ctl put large "$(head -c 9000 /dev/zero | tr '\0' x)"
ctl put empty ""
ctl put key/001 other
ctl compaction 6
ctl del key/001
ctl del --range=true key/020 key/040
ctl put key/001 again
ctl lease grant 3600
lease=$(etcdctl --endpoints $url lease list | tail -1)
ctl put --lease="$lease" leased v
ctl member add --learner --peer-urls http://127.0.0.1:1 gone
gone=$(etcdctl --endpoints $url member list | grep 127.0.0.1:1, | cut -d, -f1)
ctl member remove "$gone"
ctl member add --learner --peer-urls http://127.0.0.1:2 learner
ctl role add reader
ctl role grant-permission --prefix=true reader read key/
ctl user add alice:secret
ctl user grant-role alice reader
# More than the quota allows: raises the alarm.
head -c 300000 /dev/zero | tr '\0' y | ctl put full || true
ctl defrag
etcdctl --endpoints $url endpoint hashkv -w json
etcdctl --endpoints $url snapshot save "$dir/snapshot" >/dev/null 2>&1
cp "$dir/snapshot" etcd.snapshot.db

# Runs a command where it can do little harm: in namespaces that `unshare` has just made, and with
# a scratch folder as the only writable place.
#
# usage: guard.sh SCRATCH FOLDER USER GROUP COMMAND...
# The command runs in FOLDER. USER and GROUP are its ids outside. An ordinary user is root only in
# this script, and the command runs as that user again.
set -eu
scratch=$1 folder=$2 user=$3 group=$4
shift 4

# The scratch folder may be below /tmp. A folder in it is mounted as /tmp.
mount --bind "$scratch" /mnt
mount --bind /mnt/tmp /tmp
mkdir -p "$scratch"
mount --bind /mnt "$scratch"
umount /mnt
mount -t tmpfs tmpfs /dev/shm
while read -r _ _ _ _ place options _; do
	case $place in
	"$scratch" | "$scratch"/* | /tmp | /proc | /proc/* | /dev | /dev/*) ;;
	# An ordinary user must keep the flags of a mount.
	*) mount -o "remount,bind,ro,${options#r?,}" "$place" || { echo "cannot protect $place" >&2; exit 125; } ;;
	esac
done </proc/self/mountinfo
# Enter the folder as it is mounted now.
cd "$folder"

# The kernel kills these processes first when memory is short. A limit would stop sanitizers, which
# reserve far more than they use.
echo 1000 >/proc/self/oom_score_adj
ulimit -c 0
if [ "$user" != 0 ]; then
	set -- unshare --user --map-user="$user" --map-group="$group" -- "$@"
fi
# The first process of a PID namespace inherits orphans, and gets only signals that it handles. A
# test must not be that process.
"$@" &
wait $!

# Runs a command where it can do little harm: in namespaces that `unshare` has just made, with
# nothing to write to but a scratch folder.
#
# usage: guard.sh SCRATCH FOLDER USER GROUP COMMAND...
# FOLDER is where it runs. USER and GROUP are whose it is outside: an ordinary user was only made
# root to get here, and becomes one again.
set -eu
scratch=$1 folder=$2 user=$3 group=$4
shift 4

# The scratch folder may be below /tmp, which becomes a folder of it.
mount --bind "$scratch" /mnt
mount --bind /mnt/tmp /tmp
mkdir -p "$scratch"
mount --bind /mnt "$scratch"
umount /mnt
mount -t tmpfs tmpfs /dev/shm
while read -r _ _ _ _ place options _; do
	case $place in
	"$scratch" | "$scratch"/* | /tmp | /proc | /proc/* | /dev | /dev/*) ;;
	# An ordinary user must keep the flags that a mount has.
	*) mount -o "remount,bind,ro,${options#r?,}" "$place" || { echo "cannot protect $place" >&2; exit 125; } ;;
	esac
done </proc/self/mountinfo
# The folder as it is mounted now.
cd "$folder"

# The kernel ends these first when memory is short. A limit would end sanitizers, which reserve far
# more than they use.
echo 1000 >/proc/self/oom_score_adj
ulimit -c 0
if [ "$user" != 0 ]; then
	set -- unshare --user --map-user="$user" --map-group="$group" -- "$@"
fi
# The first process of a PID namespace gets orphans, and no signal that it does not handle: no
# place for a test.
"$@" &
wait $!

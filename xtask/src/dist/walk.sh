# Tries the retake that is in PATH, in an empty folder of its own. The recordings go where they go
# without a setting. Each failure is a line; the last line counts.
set -u
export LC_ALL=C
unset RETAKE_DIR XDG_DATA_HOME
cd "$(mktemp -d)"
passed=0
failed=0

holds() {
	what=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $what"
		tail -n 20 out err | sed 's/^/    /'
	fi
}

# ends STATUS COMMAND...: the command must end with this status.
ends() {
	wanted=$1
	shift
	# A subshell, or bash would report signals.
	("$@"; exit $?) >out 2>err </dev/null
	status=$?
	holds "$* ends with $status instead of $wanted" test $status -eq "$wanted"
}

# says TEXT: the last command must have printed this.
says() { holds "no '$1' in the output" grep -qe "$1" out err; }

# repeats STATUS COMMAND...: recording and replay must end and print alike.
repeats() {
	ends "$1" retake record "${@:2}"
	cp out recorded
	ends "$1" retake replay
	holds "${*:2} prints something else in the replay" cmp -s recorded out
}

programs() {
	cat >script <<-'END'
		#!/bin/bash
		for number in 1 2 3; do echo "$RANDOM $number"; done | sort -r
		echo $$; date +%N
		exit 7
	END
	chmod +x script
	cat >threads.py <<-'END'
		import random, threading, time
		drawn = []
		def draw(number):
		    for _ in range(5):
		        drawn.append((number, random.random()))
		        time.sleep(0.001)
		threads = [threading.Thread(target=draw, args=(number,)) for number in range(4)]
		for thread in threads: thread.start()
		for thread in threads: thread.join()
		print(drawn)
		raise SystemExit(5)
	END
	repeats 0 /bin/true
	repeats 7 ./script
	repeats 5 python3 threads.py
	repeats 9 perl -e 'print rand, " $$\n"; exit 9'
	repeats 143 perl -e 'kill 15, $$'
	ends 126 retake record /etc/passwd
	ends 127 retake record /no/such/program
	says 'cannot run /no/such/program'
	ends 125 retake replay no-such-recording
}

commands() {
	ends 0 retake doctor
	says 'ok *session'
	says 'ok *gdb'
	repeats 3 bash -c 'echo $$ $RANDOM; exit 3'
	ends 0 retake debug -- -batch -ex backtrace -ex reverse-stepi -ex 'info registers rip'
	says '^#0 .*exit'
	says '^rip'
	ends 0 retake pack -o packed.retake
	ends 3 retake replay packed.retake
	holds "the packed recording prints something else" cmp -s recorded out
	ends 0 retake backtrace
	ends 0 retake ls
	says 'bash-1'
}

# Where recordings cannot be kept, the error says what to type. That is typed.
read_only_home() {
	export HOME=/read-only
	ends 125 retake doctor
	ends 125 retake record true
	says 'try  *export RETAKE_DIR='
	suggestion=$(sed -n 's/^ *try *\(export [^,]*\).*/\1/p' err)
	ends 0 env XDG_DATA_HOME="$PWD/data" retake record true
	ends 0 env XDG_DATA_HOME="$PWD/data" retake replay
	eval "$suggestion"
	repeats 0 true
}

# What shells and man find by themselves.
shells_and_manuals() {
	ends 0 man -w retake retake-record
	ends 0 bash -c 'man retake-record | col -bx'
	says 'retake  *record  *make'
	ends 0 bash -c '. /usr/share/bash-completion/bash_completion
		_comp_load retake 2>/dev/null || __load_completion retake
		complete -p retake'
	ends 0 zsh -c 'autoload -Uz compinit && compinit -u && echo "$_comps[retake]"'
	says '^_retake$'
}

programs
commands
(($# == 0)) || "$@"
read_only_home
echo "$passed passed, $failed failed"
test $failed -eq 0

# A pipeline whose reader ends last.
i=0
while [ $i -lt 400 ]; do
	i=$((i + 1))
	echo "line $i"
	[ $((i % 50)) -eq 0 ] && sleep 0.05
done | tr a-z A-Z | cat -n
echo "status $?"

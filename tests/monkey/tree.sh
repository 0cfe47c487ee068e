# A shell whose children have children.
for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
	(
		sh -c "echo inner $round; sleep 0.02" &
		echo outer $round
		wait
	) &
	sleep 0.03
	wait
done
echo done

/* A name that is too long overwrites the balances of accounts. Then the program crashes. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct account {
	char name[8];
	long balance;
};
struct account accounts[3] = { { "one", 0 }, { "two", 0 }, { "three", 0 } };
double shares[2] = { 1.5, 2.5 };
long total;

long deposit(struct account *account, long amount)
{
	account->balance += amount;
	total += amount;
	return account->balance;
}

void rename_account(struct account *account, const char *name)
{
	char *to = account->name;
	while ((*to++ = *name++))
		;
}

double share(double part, long whole)
{
	shares[0] = part * whole;
	return shares[0];
}

long balance_of(struct account *account)
{
	if (account->balance < 0 || account->balance > 1000)
		*(volatile int *)0 = 1;
	return account->balance;
}

int main(void)
{
	long sum = 0;
	for (long i = 1; i <= 6; i++)
		sum += deposit(&accounts[i % 3], 10 * i);
	printf("sum %ld\n", sum);
	fflush(stdout);
	share(0.5, sum);
	rename_account(&accounts[1], "much too long");
	for (int i = 0; i < 3; i++)
		sum += balance_of(&accounts[i]);
	printf("total %ld\n", sum);
	return 0;
}

import os


class Account:
    def __init__(self, owner, balance):
        self.owner = owner
        self.balance = balance

    def withdraw(self, amount):
        before = self.balance
        self.balance = before - amount
        if self.balance < 0:
            os.abort()
        return before


def customers(account, amounts):
    for amount in amounts:
        yield account.withdraw(amount)


ada = Account("Ada", 50)
taken = sum(customers(ada, [10, 20, 30]))

// Fills a LevelDB database in random order, overwrites part of it, and reads it in order and at random.
#include <leveldb/db.h>
#include <leveldb/write_batch.h>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>

int main(int count, char **arguments)
{
	const int entries = count > 1 ? std::atoi(arguments[1]) : 20000;
	leveldb::Options options;
	options.create_if_missing = true;
	options.write_buffer_size = 1 << 20;
	leveldb::DB *opened = nullptr;
	if (!leveldb::DB::Open(options, "db", &opened).ok())
		return 1;
	std::unique_ptr<leveldb::DB> db(opened);
	std::mt19937 random(1);
	auto key = [](unsigned number) { char text[20]; std::snprintf(text, sizeof text, "%016u", number); return std::string(text); };
	for (int i = 0; i < entries; i++)
		if (!db->Put({}, key(random() % entries), std::string(100, char('a' + i % 26))).ok())
			return 2;
	leveldb::WriteOptions synced;
	synced.sync = true;
	for (int i = 0; i < 100; i++)
		if (!db->Put(synced, key(i), "synced").ok() || !db->Delete({}, key(i + 1000)).ok())
			return 3;
	std::string value;
	int found = 0;
	for (int i = 0; i < entries; i++)
		found += db->Get({}, key(random() % entries), &value).ok();
	std::unique_ptr<leveldb::Iterator> all(db->NewIterator({}));
	for (all->SeekToFirst(); all->Valid(); all->Next())
		found++;
	std::printf("%d\n", found);
	return all->status().ok() ? 0 : 4;
}

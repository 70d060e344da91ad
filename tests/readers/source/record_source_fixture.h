#ifndef MILLRACE_TESTS_READERS_SOURCE_RECORD_SOURCE_FIXTURE_H_
#define MILLRACE_TESTS_READERS_SOURCE_RECORD_SOURCE_FIXTURE_H_

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "readers/open_file.h"
#include "readers/record_source.h"
#include "tests/readers/record_test_util.h"

namespace millrace::readers {

// Payload i of a shard: 0 to 2 KiB, and a few large ones.
inline std::vector<std::string> Payloads(int num, int seed) {
  std::vector<std::string> payloads;
  for (int i = 0; i < num; ++i) {
    const int size = i % 50 == 49 ? 300'000 : (i * 131 + seed) % 2048;
    payloads.emplace_back(static_cast<size_t>(size), static_cast<char>('a' + (i + seed) % 26));
  }
  return payloads;
}

inline absl::StatusOr<std::string> ReadRecord(const RecordSource& source, uint64_t record) {
  const RecordRef ref = source.Locate(record);
  std::vector<std::byte> framed(source.FramedBytes(ref));
  const absl::Status status = ReadFully(*source.file(ref.shard), ref.offset, framed);
  if (!status.ok()) return status;
  const auto payload = source.Unframe(ref, framed);
  if (!payload.ok()) return payload.status();
  return std::string(*payload);
}

inline void SetTime(const std::string& path, int64_t seconds) {
  const timespec times[2] = {{seconds, 0}, {seconds, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

// Shards in one folder, their indexes in another.
class RecordSourceFixture : public testing::Test {
 protected:
  RecordSourceFixture() { options_.index_folder = index_.path(); }

  std::string Shard(const std::string& name, std::string_view bytes) {
    WriteFile(data_ / name, bytes);
    SetTime(data_ / name, 1'700'000'000);
    return data_ / name;
  }

  absl::StatusOr<std::unique_ptr<RecordSource>> Open(std::vector<std::string> files) {
    walked_ = false;
    options_.progress = [this](int64_t, int64_t) { walked_ = true; };
    return RecordSource::Open(std::move(files), options_);
  }

  void ExpectRecords(const RecordSource& source, const std::vector<std::string>& want) {
    ASSERT_EQ(source.num_records(), want.size());
    for (uint64_t i = want.size(); i-- > 0;) {  // backwards: any order works
      const auto got = ReadRecord(source, i);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_TRUE(*got == want[i]) << i;
    }
  }

  // The file of the only index in the cache.
  std::string IndexFile() const {
    for (const auto& entry : std::filesystem::directory_iterator(index_.path())) {
      if (entry.path().extension() == ".index") return entry.path();
    }
    return "";
  }

  const TempFolder data_;
  const TempFolder index_;
  RecordSourceOptions options_;
  bool walked_ = false;  // whether the last Open walked a plain shard
};

}  // namespace millrace::readers

#endif  // MILLRACE_TESTS_READERS_SOURCE_RECORD_SOURCE_FIXTURE_H_

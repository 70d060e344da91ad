#ifndef MILLRACE_TESTS_READERS_CONTAINER_CONTAINER_FIXTURE_H_
#define MILLRACE_TESTS_READERS_CONTAINER_CONTAINER_FIXTURE_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "readers/container.h"
#include "tests/readers/source/record_source_fixture.h"

namespace millrace::readers {

using Strings = std::vector<std::string>;
using Reason = RecordErrorReason;

inline ContainerOptions Kind(ContainerKind kind) {
  ContainerOptions options;
  options.kind = kind;
  return options;
}

inline ContainerOptions FixedLength(uint64_t header, uint64_t record, uint64_t footer) {
  ContainerOptions options = Kind(ContainerKind::kFixedLength);
  options.header_bytes = header;
  options.record_bytes = record;
  options.footer_bytes = footer;
  return options;
}

inline std::string BigEndian(uint32_t value) {
  std::string bytes = LittleEndian(value, 4);
  return {bytes.rbegin(), bytes.rend()};
}

// An IDX file of `type`.
inline std::string Idx(char type, const std::vector<uint32_t>& extents, const std::string& values) {
  std::string bytes = {0, 0, type, static_cast<char>(extents.size())};
  for (const uint32_t extent : extents) bytes += BigEndian(extent);
  return bytes + values;
}

class ContainerTest : public RecordSourceFixture {
 protected:
  // All records of a shard of these bytes, or the error of the first that has one.
  absl::StatusOr<Strings> Read(const ContainerOptions& container, std::string_view bytes) {
    options_.container = container;
    if (!keep_name_) shard_ = "shard-" + std::to_string(++num_shards_);
    auto source = Open({Shard(shard_, bytes)});
    if (!source.ok()) return source.status();
    Strings records;
    for (uint64_t i = 0; i < (*source)->num_records(); ++i) {
      auto record = ReadRecord(**source, i);
      if (!record.ok()) return record.status();
      records.push_back(*std::move(record));
    }
    return records;
  }
  void ExpectRead(const ContainerOptions& container, std::string_view bytes, const Strings& want) {
    const auto got = Read(container, bytes);
    ASSERT_TRUE(got.ok()) << got.status() << " of " << bytes;
    EXPECT_EQ(*got, want) << bytes;
  }
  void ExpectDamage(const ContainerOptions& container, std::string_view bytes, Reason reason,
                    int64_t offset, int64_t ordinal) {
    const absl::Status status = Read(container, bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    const auto error = GetRecordError(status);
    ASSERT_TRUE(error.has_value()) << status;
    EXPECT_EQ(error->file, data_ / shard_);
    EXPECT_EQ(error->reason, reason) << status;
    EXPECT_EQ(error->offset, offset) << status;
    EXPECT_EQ(error->ordinal, ordinal) << status;
  }

  bool keep_name_ = false;  // read the same file again
  std::string shard_ = "shard";
  int num_shards_ = 0;
};

}  // namespace millrace::readers

#endif  // MILLRACE_TESTS_READERS_CONTAINER_CONTAINER_FIXTURE_H_

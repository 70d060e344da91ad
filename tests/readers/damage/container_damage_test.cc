#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <optional>

#include "readers/container/container.h"
#include "readers/container/tar_walk.h"
#include "tests/readers/container/container_fixture.h"

// The samples of tars, and what any container says of files that were damaged. The oracle for tars
// is libarchive, which writes them.

namespace millrace::readers {
namespace {

using Named = std::vector<std::pair<std::string, std::string>>;

using SetFormat = int (*)(archive*);
constexpr SetFormat kFormats[] = {archive_write_set_format_ustar, archive_write_set_format_gnutar,
                                  archive_write_set_format_pax};

std::string Tar(const Named& files, SetFormat set_format) {
  std::string bytes(1 << 20, '\0');
  size_t used = 0;
  archive* const tar = archive_write_new();
  EXPECT_EQ(set_format(tar), ARCHIVE_OK);
  EXPECT_EQ(archive_write_open_memory(tar, bytes.data(), bytes.size(), &used), ARCHIVE_OK);
  for (const auto& [name, content] : files) {
    archive_entry* const entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
    archive_entry_set_filetype(entry, name.ends_with('/') ? AE_IFDIR : AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    EXPECT_EQ(archive_write_header(tar, entry), ARCHIVE_OK) << archive_error_string(tar);
    archive_write_data(tar, content.data(), content.size());
    archive_entry_free(entry);
  }
  EXPECT_EQ(archive_write_close(tar), ARCHIVE_OK);
  archive_write_free(tar);
  bytes.resize(used);
  return bytes;
}

// The members of a part of an archive.
Named MembersOf(const std::string& part) {
  const FakeFile file(part);
  TarWalk walk(file, 1 << 20, /*is_part=*/true);
  Named members;
  while (true) {
    const auto member = walk.Next();
    EXPECT_TRUE(member.ok()) << member.status();
    if (!member.ok() || !member->has_value()) return members;
    members.emplace_back((*member)->name, part.substr((*member)->data, (*member)->size));
  }
}

const ContainerOptions kTar = Kind(ContainerKind::kTar);
using TarTest = ContainerTest;

// S-SOURCE-5.
TEST_F(TarTest, ARecordIsTheMembersThatFollowEachOtherUnderOneName) {
  const std::string deep = std::string(120, 'd') + "/" + std::string(90, 'x');
  const std::vector<Named> samples = {
      {{"a.jpg", "picture"}, {"a.cls", "7"}},
      {{"b.jpg", std::string(3000, 'b')}, {"b.seg.png", ""}},
      {{"dir.d/b.jpg", "in a folder"}},
      {{deep + ".jpg", "a long name"}, {deep + ".cls", "1"}},
      {{"a.jpg", "again"}},
  };
  for (const SetFormat format : kFormats) {
    Named files;
    for (const Named& sample : samples) {
      files.insert(files.end(), sample.begin(), sample.end());
    }
    const auto records = Read(kTar, Tar(files, format));
    ASSERT_TRUE(records.ok()) << records.status();
    ASSERT_EQ(records->size(), samples.size());
    for (size_t i = 0; i < samples.size(); ++i) EXPECT_EQ(MembersOf((*records)[i]), samples[i]);
    ExpectRead(kTar, Deflated(Tar(files, format), Wrapper::kGzip), *records);
  }
  ExpectRead(kTar, Tar({}, kFormats[0]), {});
}

// S-SOURCE-5.
TEST_F(TarTest, WhatIsNoMemberOfASampleIsPassedOver) {
  const auto records = Read(kTar, Tar({{"README", "no dot"},
                                       {"dir/", ""},
                                       {"dir/a.jpg", "1"},
                                       {"dir/.hidden", "dot"},
                                       {"dir/a.cls", "2"},
                                       {"end/", ""}},
                                      kFormats[0]));
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(records->size(), 1u);
  EXPECT_EQ(MembersOf((*records)[0]),
            (Named{{"dir/a.jpg", "1"}, {"dir/.hidden", "dot"}, {"dir/a.cls", "2"}}));
}

// S-SOURCE-5.
TEST_F(TarTest, ACutArchiveIsDamageWhereverItIsCut) {
  const std::string whole = Tar({{"a.x", "1"}, {"b.x", "2"}}, kFormats[0]);
  ExpectDamage(kTar, whole.substr(0, 2048), Reason::kTruncatedHeader, 1024, 1);
  ExpectDamage(kTar, whole.substr(0, 1600), Reason::kTruncatedPayload, 1024, 1);
  ExpectDamage(kTar, whole.substr(0, 1100), Reason::kTruncatedHeader, 0, 0);
  ExpectDamage(kTar, "", Reason::kTruncatedHeader, 0, 0);
  ExpectDamage(kTar, whole + whole, Reason::kUnknown, static_cast<int64_t>(whole.size()), 2);
  std::string flipped = whole;
  flipped[1024 + 3] ^= 1;
  ExpectDamage(kTar, flipped, Reason::kLengthCrc, 0, 0);
  options_.max_record_bytes = 1023;
  ExpectDamage(kTar, whole, Reason::kAbsurdLength, 0, 0);
}

// S-SOURCE-5.
TEST_F(TarTest, AHeaderThatIsDamagedAfterItWasIndexedIsFoundWhenItIsRead) {
  const std::string whole = Tar({{"a.x", "1"}, {"a.y", "2"}, {"b.x", "3"}}, kFormats[0]);
  keep_name_ = true;
  ASSERT_TRUE(Read(kTar, whole).ok());
  std::string flipped = whole;
  flipped[1024 + 3] ^= 1;
  ExpectDamage(kTar, flipped, Reason::kLengthCrc, 0, 0);
  std::string zeros = whole;
  zeros.replace(1024, 1024, 1024, '\0');
  ExpectDamage(kTar, zeros, Reason::kLengthCrc, 0, 0);
  ExpectDamage(kTar, Tar({{"a.x", "1"}, {"c.y", "2"}, {"b.x", "3"}}, kFormats[0]), Reason::kUnknown,
               0, 0);
}

// A good file of each container.
struct Sample {
  const char* name;
  ContainerOptions container;
  std::string bytes;
};

std::vector<Sample> GoodFiles() {
  std::string lines;
  std::string rows = "name,text\n";
  std::vector<std::string> payloads;
  Named members;
  for (int i = 0; i < 40; ++i) {
    const std::string number = std::to_string(i);
    payloads.push_back(std::string(static_cast<size_t>(i), 'p') + number);
    lines += payloads.back() + (i % 3 == 0 ? "\r\n" : "\n");
    rows += number + (i % 4 == 0 ? ",\"two\nlines, \"\"quoted\"\"\"\r\n" : ",plain\n");
    if (i < 6)
      members.insert(members.end(), {{number + ".a", payloads.back()}, {number + ".b", ""}});
  }
  ContainerOptions csv = Kind(ContainerKind::kCsv);
  csv.has_header = true;
  return {{"tfrecord", Kind(ContainerKind::kTfRecord), Frames(payloads)},
          {"fixed_length", FixedLength(7, 12, 5), "header." + std::string(40 * 12, 'r') + "foot."},
          {"text", Kind(ContainerKind::kText), lines},
          {"csv", csv, rows},
          {"ustar", kTar, Tar(members, kFormats[0])},
          {"pax", kTar, Tar(members, kFormats[2])},
          {"idx", Kind(ContainerKind::kIdx), Idx(8, {30, 3, 4}, std::string(360, 'i'))}};
}

class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed * 2 + 1) {}
  size_t Below(size_t end) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state_ >> 33) % std::max<size_t>(end, 1);
  }

 private:
  uint64_t state_;
};

// Flips a bit, cuts, takes out, puts in, or swaps two stretches; returns where it began.
size_t Damage(Draw& draw, std::string& bytes) {
  // Half of the damage goes to where the structure is.
  const size_t at = draw.Below(2) == 0 ? draw.Below(bytes.size()) : draw.Below(64);
  const size_t size = 1 + draw.Below(600);
  switch (draw.Below(5)) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << draw.Below(8));
      break;
    case 1:
      bytes.resize(at);
      break;
    case 2:
      bytes.erase(at, size);
      break;
    case 3:
      bytes.insert(at, bytes.substr(draw.Below(bytes.size()), size));
      break;
    default: {
      const std::string moved = bytes.substr(at, size);
      bytes.erase(at, size);
      bytes += moved;
    }
  }
  return at;
}

// DATA_LOSS with a file and a place in it.
void ExpectLocated(const absl::Status& status, uint64_t size, const std::string& what) {
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << what << status;
  const auto error = GetRecordError(status);
  ASSERT_TRUE(error.has_value()) << what << status;
  EXPECT_EQ(error->file, "fake.tfrecord") << what;
  EXPECT_GE(error->offset, 0) << what;
  EXPECT_LE(error->offset, static_cast<int64_t>(size)) << what;
  EXPECT_GE(error->ordinal, 0) << what;
}

struct Opened {
  std::unique_ptr<const Container> container;
  RecordIndex index;

  absl::StatusOr<std::string> Read(const std::string& bytes, uint64_t record) const {
    const RecordRef ref = {0, record, index.offset(record), index.length(record)};
    const uint64_t size = ref.length + container->format().overhead_bytes;
    const std::string frame = bytes.substr(std::min<size_t>(ref.offset, bytes.size()), size);
    const auto payload = container->Unframe("fake.tfrecord", ref, std::as_bytes(std::span(frame)));
    if (!payload.ok()) return payload.status();
    return std::string(*payload);
  }
};

Strings PayloadsOf(const Sample& good, const Opened& opened) {
  Strings payloads;
  for (uint64_t i = 0; i < opened.index.num_records(); ++i) {
    payloads.push_back(opened.Read(good.bytes, i).value_or("none"));
  }
  EXPECT_EQ(std::ranges::count(payloads, "none"), 0) << good.name;
  return payloads;
}

absl::StatusOr<Opened> Open(const ContainerOptions& options, const std::string& bytes) {
  Opened opened{MakeContainer(options, /*verify_crc=*/true), {}};
  WalkOptions walk;
  walk.max_record_bytes = 1 << 20;
  auto index = opened.container->FindFrames(FakeFile(bytes), walk, std::make_shared<IndexMemory>());
  if (!index.ok()) return index.status();
  opened.index = *std::move(index);
  return opened;
}

constexpr uint64_t kDraws = 600;

TEST(ContainerDamageTest, DrawnDamageIsLocatedAndLeavesWhatLiesBeforeIt) {
  for (const Sample& good : GoodFiles()) {
    const auto before = Open(good.container, good.bytes);
    ASSERT_TRUE(before.ok()) << good.name << before.status();
    ASSERT_GT(before->index.num_records(), 5u) << good.name;
    const Strings payloads = PayloadsOf(good, *before);
    int errors = 0;
    for (uint64_t seed = 0; seed < kDraws; ++seed) {
      const std::string what = std::string(good.name) + " seed " + std::to_string(seed) + ": ";
      Draw draw(seed);
      std::string bytes = good.bytes;
      const size_t at = Damage(draw, bytes);
      const auto opened = Open(good.container, bytes);
      if (!opened.ok()) {
        ++errors;
        ExpectLocated(opened.status(), bytes.size(), what);
        continue;
      }
      ASSERT_LE(opened->index.end(), bytes.size()) << what;
      for (uint64_t i = 0; i < opened->index.num_records(); ++i) {
        const auto record = opened->Read(bytes, i);
        if (!record.ok()) {
          ++errors;
          ExpectLocated(record.status(), bytes.size(), what);
        }
        if (i >= before->index.num_records() || before->index.offset(i + 1) > at) continue;
        EXPECT_EQ(record.value_or("damaged"), payloads[i]) << what << i;
      }
    }
    const bool all_is_valid = good.container.kind == ContainerKind::kText;
    EXPECT_GT(errors, all_is_valid ? -1 : 30) << good.name;
  }
}

TEST(ContainerDamageTest, DamageBehindTheIndexIsLocatedAndHitsNoOtherRecord) {
  for (const Sample& good : GoodFiles()) {
    const auto opened = Open(good.container, good.bytes);
    ASSERT_TRUE(opened.ok()) << good.name << opened.status();
    const Strings payloads = PayloadsOf(good, *opened);
    for (uint64_t seed = 0; seed < kDraws; ++seed) {
      const std::string what = std::string(good.name) + " seed " + std::to_string(seed) + ": ";
      Draw draw(seed);
      std::string bytes = good.bytes;
      const size_t at = draw.Below(bytes.size());
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << draw.Below(8));
      for (uint64_t i = 0; i < opened->index.num_records(); ++i) {
        const auto record = opened->Read(bytes, i);
        if (!record.ok()) ExpectLocated(record.status(), bytes.size(), what);
        if (at >= opened->index.offset(i) && at < opened->index.offset(i + 1)) continue;
        EXPECT_EQ(record.value_or("damaged"), payloads[i]) << what << i;
      }
    }
  }
}

}  // namespace
}  // namespace millrace::readers

#include <algorithm>
#include <random>
#include <sstream>
#include <string_view>

#include "readers/container/tar_walk.h"
#include "readers/quarantine.h"
#include "tests/messages.h"
#include "tests/readers/damage/shard_parts_fixture.h"
#include "tests/sanitized.h"

// Which sample of a tar damage is part of, and what is delivered around it. A source that ends at
// damage, one that goes on behind it and `records verify` say the same of each archive.

namespace millrace::readers {
namespace {

constexpr size_t kBlock = 512;

struct Found {
  std::vector<Named> samples;
  std::vector<RecordError> damaged;
};

Named MembersIn(const std::string& sample) { return Untar(sample + std::string(2 * kBlock, '\0')); }

std::string Key(const Named& sample) { return std::string(TarSampleKey(sample.at(0).first)); }

class TarDamageTest : public ContainerTest {
 protected:
  TarDamageTest() {
    options_.container = Kind(ContainerKind::kTar);
    options_.index_folder = "/dev/null";  // no index is kept of shards that are read once
  }

  // What can be had of an archive.
  Found Find(const std::string& bytes) {
    const std::string path = Shard("a.tar", bytes);
    options_.resync = true;
    Found found;
    const auto source = Open({path});
    EXPECT_TRUE(source.ok()) << source.status();
    for (uint64_t i = 0; source.ok() && i < (*source)->num_records(); ++i) {
      const auto record = ReadRecord(**source, i);
      if (record.ok()) {
        found.samples.push_back(MembersIn(*record));
      } else {
        found.damaged.push_back(GetRecordError(record.status()).value_or(RecordError()));
        EXPECT_EQ(found.damaged.back().ordinal, static_cast<int64_t>(i));
      }
    }
    ExpectSaidByAll(path, found);
    return found;
  }

  std::string Message(const std::string& bytes) {
    options_.resync = false;
    return std::string(Open({Shard("a.tar", bytes)}).status().message());
  }

 private:
  void ExpectSaidByAll(const std::string& path, const Found& found) {
    options_.resync = false;
    const auto error = GetRecordError(Open({path}).status());
    ASSERT_EQ(error.has_value(), !found.damaged.empty());
    const auto report = Verify(Strings{path}, {.max_record_bytes = options_.max_record_bytes,
                                               .container = options_.container});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->num_records, found.samples.size());
    ASSERT_EQ(report->places.size(), found.damaged.size());
    for (size_t i = 0; i < found.damaged.size(); ++i) {
      EXPECT_EQ(QuarantineLine(report->places[i].error), QuarantineLine(found.damaged[i]));
    }
    if (!error.has_value()) return;
    EXPECT_EQ(error->offset, found.damaged[0].offset);
    EXPECT_EQ(error->ordinal, found.damaged[0].ordinal);
    EXPECT_EQ(Message(ReadFile(path)), report->places[0].message);
  }
};

// Samples of two members, which have a header and a block of data each.
constexpr size_t kSampleBytes = 4 * kBlock;

std::vector<Named> TwoMembersEach(int count) {
  std::vector<Named> samples;
  for (int i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    samples.push_back({{number + ".cls", number}, {number + ".jpg", std::string(300, 'j')}});
  }
  return samples;
}

std::string Archive(const std::vector<Named>& samples) {
  Named members;
  for (const Named& sample : samples) members.insert(members.end(), sample.begin(), sample.end());
  return readers::Tar(members);
}

std::vector<Named> Without(std::vector<Named> samples, size_t begin, size_t end) {
  samples.erase(samples.begin() + static_cast<ptrdiff_t>(begin),
                samples.begin() + static_cast<ptrdiff_t>(end));
  return samples;
}

void ExpectPlace(const RecordError& error, size_t sample, size_t offset) {
  EXPECT_EQ(error.ordinal, static_cast<int64_t>(sample));
  EXPECT_EQ(error.offset, static_cast<int64_t>(offset));
}

// S-DAMAGE-11.
TEST_F(TarDamageTest, ACutInAMemberIsDamageOfItsOwnSample) {
  const std::vector<Named> samples = TwoMembersEach(8);
  const std::string whole = Archive(samples);
  for (const size_t member : {0, 1}) {
    for (const size_t bytes : {kBlock, kBlock + 100, 2 * kBlock - 1}) {
      const testing::ScopedTrace trace(__FILE__, __LINE__, bytes);
      const std::string cut = whole.substr(0, 5 * kSampleBytes + member * 2 * kBlock + bytes);
      const Found found = Find(cut);
      EXPECT_EQ(found.samples, Without(samples, 5, 8));
      ASSERT_EQ(found.damaged.size(), 1u);
      ExpectPlace(found.damaged[0], 5, 5 * kSampleBytes);
      EXPECT_EQ(found.damaged[0].reason, Reason::kTruncatedPayload);
    }
  }
}

// S-DAMAGE-11. The samples that webdataset finds in the same bytes, of which the last may lack
// members (scripts/make_webdataset_meta.py).
TEST_F(TarDamageTest, ACutAnywhereCostsNoSampleThatAnotherIsKnownToFollow) {
  const std::string whole = ReadFile(TestData("webdataset_meta.tar"));
  const std::vector<Named> samples = Find(whole).samples;
  std::vector<size_t> header_ends;  // of the first member of each sample
  const Named members = Untar(whole);
  for (size_t i = 0; i < members.size(); ++i) {
    const size_t next = header_ends.size();
    if (next == samples.size() || members[i] != samples[next][0]) continue;
    header_ends.push_back(i * 2 * kBlock + kBlock);
  }
  ASSERT_EQ(header_ends.size(), samples.size());
  std::istringstream table(ReadFile(TestData("webdataset_cut.txt")));
  size_t num_cuts = 0;
  for (std::string line; std::getline(table, line);) {
    if (line.starts_with('#')) continue;
    const testing::ScopedTrace trace(__FILE__, __LINE__, line);
    std::istringstream words(line);
    size_t bytes = 0;
    words >> bytes;
    const Found found = Find(whole.substr(0, bytes));
    const auto begun = std::ranges::upper_bound(header_ends, bytes) - header_ends.begin();
    ASSERT_EQ(found.samples.size(), static_cast<size_t>(std::max<ptrdiff_t>(begun - 1, 0)));
    for (size_t i = 0; i < found.samples.size(); ++i) {
      EXPECT_EQ(found.samples[i], samples[i]);
      std::string theirs;
      ASSERT_TRUE(words >> theirs) << i;
      EXPECT_EQ(theirs.substr(0, theirs.find(':')), Key(found.samples[i]));
    }
    std::string last;
    words >> last;
    EXPECT_FALSE(words >> last) << "one at most is not known to be whole";
    EXPECT_EQ(found.damaged.size(), 1u);
    ++num_cuts;
  }
  EXPECT_EQ(num_cuts, 61u);
}

// S-DAMAGE-11.
TEST_F(TarDamageTest, AHeaderThatIsDamagedMayBeOfTheSampleOnEitherSide) {
  const std::vector<Named> samples = TwoMembersEach(8);
  const std::string whole = Archive(samples);
  std::string flipped = whole;
  flipped[5 * kSampleBytes + 3] ^= 1;
  std::string zeros = whole;
  zeros.replace(5 * kSampleBytes, kBlock, kBlock, '\0');
  for (const std::string& bytes : {flipped, zeros}) {
    const Found found = Find(bytes);
    EXPECT_EQ(found.samples, Without(samples, 4, 6));
    ASSERT_EQ(found.damaged.size(), 2u);
    ExpectPlace(found.damaged[0], 4, 4 * kSampleBytes);
    ExpectPlace(found.damaged[1], 5, 5 * kSampleBytes + 2 * kBlock);
  }
  EXPECT_MESSAGE(Message(flipped));
  EXPECT_MESSAGE(Message(zeros));
  EXPECT_MESSAGE(Message(whole.substr(0, 5 * kSampleBytes)));
}

// S-DAMAGE-11.
TEST_F(TarDamageTest, AMemberThatCannotBeReadCostsItsSampleAlone) {
  std::vector<Named> samples = TwoMembersEach(8);
  samples[5] = {{"5.cls", "5"}, {"5.big", std::string(9000, 'b')}, {"5.jpg", "j"}};
  options_.max_record_bytes = 8000;
  const Found member = Find(Archive(samples));
  EXPECT_EQ(member.samples, Without(samples, 5, 6));
  ASSERT_EQ(member.damaged.size(), 1u);
  ExpectPlace(member.damaged[0], 5, 5 * kSampleBytes);

  samples[5] = {{"5.a", std::string(3000, 'a')},
                {"5.b", std::string(3000, 'b')},
                {"5.c", std::string(3000, 'c')},
                {"5.d", "d"}};
  const Found sample = Find(Archive(samples));
  EXPECT_EQ(sample.samples, Without(samples, 5, 6));
  ASSERT_EQ(sample.damaged.size(), 1u);
  ExpectPlace(sample.damaged[0], 5, 5 * kSampleBytes);
}

// S-DAMAGE-11. Whatever the damage, all name its first place alike, and every sample in front of it
// is there.
TEST_F(TarDamageTest, DrawnDamageIsSaidByAllAlike) {
  const std::vector<Named> samples = TwoMembersEach(8);
  const std::string whole = Archive(samples);
  std::mt19937_64 random(5);
  int num_damaged = 0;
  for (int round = 0; round < Rounds(600) && !HasFailure(); ++round) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, round);
    std::string bytes = whole;
    const size_t at = random() % (8 * kSampleBytes);
    const size_t count = std::min<size_t>(1 + random() % 2000, bytes.size() - at);
    if (round % 4 == 0) bytes[at] ^= static_cast<char>(1 << random() % 8);
    if (round % 4 == 1) bytes.resize(at);
    if (round % 4 == 2) bytes.erase(at, count);
    if (round % 4 == 3) bytes.replace(at, count, count, '\0');
    const Found found = Find(bytes);
    num_damaged += found.damaged.empty() ? 0 : 1;
    // The sample in front of the place may have lost a member, and no other one.
    const size_t untouched = at / kSampleBytes - std::min<size_t>(at / kSampleBytes, 1);
    ASSERT_GE(found.samples.size(), untouched);
    for (size_t i = 0; i < untouched; ++i) EXPECT_EQ(found.samples[i], samples[i]);
  }
  EXPECT_GT(num_damaged, Rounds(200));
}

// The names of a sample's members.
Strings NamesOf(const Named& sample) {
  Strings names;
  for (const auto& [name, data] : sample) names.push_back(name);
  return names;
}

// S-DAMAGE-11.
TEST_F(TarDamageTest, SamplesOnBothSidesOfAnEndMarkAreWholeIfTheyHaveTheSameMembers) {
  const std::vector<Named> samples = TwoMembersEach(8);
  const std::string whole = Archive(samples);
  std::vector<Named> twice = samples;
  twice.insert(twice.end(), samples.begin(), samples.end());
  const Found two = Find(whole + whole);
  EXPECT_EQ(two.samples, twice);
  ASSERT_EQ(two.damaged.size(), 1u);
  ExpectPlace(two.damaged[0], 8, whole.size());

  const Named other = {{"8.cls", "8"}, {"8.png", "p"}};
  const std::vector<Named> others = {other, samples[0]};
  const Found differ = Find(whole + Archive(others));
  std::vector<Named> known = Without(samples, 7, 8);
  known.push_back(samples[0]);
  EXPECT_EQ(differ.samples, known);
  ASSERT_EQ(differ.damaged.size(), 2u);
  ExpectPlace(differ.damaged[0], 7, 7 * kSampleBytes);
  ExpectPlace(differ.damaged[1], 8, whole.size());
  EXPECT_MESSAGE(Message(whole + Archive(others)));
}

// S-DAMAGE-11. Zeros wherever they begin, of any number, cost the samples that they touch or may
// have touched, and none that is delivered lacks a member.
TEST_F(TarDamageTest, AHoleOfZerosTearsNoSampleInSilence) {
  constexpr size_t kStep = kBlock / 2;
  const std::vector<Named> samples = TwoMembersEach(8);
  const std::string whole = Archive(samples);
  for (size_t begin = 2 * kSampleBytes; begin < 3 * kSampleBytes; begin += kStep) {
    for (size_t bytes = kBlock; bytes <= 2 * kSampleBytes; bytes += kStep) {
      const testing::ScopedTrace trace(__FILE__, __LINE__,
                                       std::to_string(begin) + " " + std::to_string(bytes));
      std::string hole = whole;
      hole.replace(begin, bytes, bytes, '\0');
      const Found found = Find(hole);
      const size_t first = begin / kSampleBytes;
      const size_t last = (begin + bytes - 1) / kSampleBytes;
      const size_t in_member = begin % (2 * kBlock);
      const bool hits_header = in_member < kBlock || in_member + bytes > 2 * kBlock;
      EXPECT_EQ(found.damaged.empty(), !hits_header);
      for (const Named& sample : found.samples) {
        const auto number = static_cast<size_t>(std::stoi(Key(sample)));
        EXPECT_EQ(NamesOf(sample), NamesOf(samples[number]));
      }
      EXPECT_GE(found.samples.size() + last - first + 1 + 2, samples.size());
    }
  }
}

// S-DAMAGE-11.
TEST_F(TarDamageTest, AnArchiveOfWhichTheEndBecameZerosIsDamaged) {
  constexpr size_t kLargestRecords = 1 << 20;  // of tar -b 2048
  const std::vector<Named> samples = TwoMembersEach(8);
  const std::string whole = Archive(samples);
  EXPECT_EQ(Find(whole + std::string(kLargestRecords, '\0')).samples, samples);
  const std::string zeros = whole + std::string(kLargestRecords + kBlock, '\0');
  const Found found = Find(zeros);
  EXPECT_EQ(found.samples, Without(samples, 7, 8));
  ASSERT_EQ(found.damaged.size(), 1u);
  ExpectPlace(found.damaged[0], 7, 7 * kSampleBytes);
  EXPECT_MESSAGE(Message(zeros));
}

}  // namespace
}  // namespace millrace::readers

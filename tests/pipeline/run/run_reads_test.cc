// How the records of a run become reads: pipeline/run/records.h.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/run/records.h"
#include "tests/pipeline/executor/fake_source.h"

namespace millrace::pipeline {
namespace {

std::vector<SampleId> Ids(const std::vector<uint64_t>& records) {
  std::vector<SampleId> ids;
  for (const uint64_t record : records) ids.push_back({.epoch = 0, .record = record});
  return ids;
}

// One shard.
FakeSource SourceOf(size_t records, size_t payload_bytes) {
  FakeData data = MakeFakeData(records, payload_bytes);
  data.records_per_shard = records;
  return FakeSource(data);
}

// Reads as the engine would, and returns the payloads.
std::vector<std::string> Fetch(const FakeSource& source, RunRecords& work,
                               const std::vector<ReadRequest>& reads) {
  for (const ReadRequest& read : reads) {
    const auto got = read.file->ReadAt(read.offset, read.out);
    EXPECT_TRUE(got.ok() && *got == read.out.size());
  }
  std::vector<std::string_view> views(static_cast<size_t>(work.rows));
  const size_t good = source.UnframeAll({work.refs.data(), views.size()}, work.buffer.get(),
                                        {work.starts.data(), views.size() + 1}, views);
  EXPECT_EQ(good, views.size());
  return {views.begin(), views.end()};
}

TEST(RunReadsTest, RecordsWithShortGapsAreOneRead) {
  const FakeSource source = SourceOf(40, 100);
  const FakeData data = MakeFakeData(40, 100);
  const std::vector<uint64_t> records = {0, 2, 3, 7, 8, 9, 20};
  RunRecords work;
  ASSERT_EQ(LocateRun(source, {}, Ids(records), 1, work), 7);
  const std::vector<ReadRequest> reads = MakeReads(source, work);
  ASSERT_EQ(reads.size(), 1);
  EXPECT_EQ(reads[0].offset, 0);
  const readers::RecordRef last = source.Locate(20);
  EXPECT_EQ(reads[0].out.size(), last.offset + source.FramedBytes(last));
  const std::vector<std::string> payloads = Fetch(source, work, reads);
  for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(payloads[i], data.payloads[records[i]]);
}

TEST(RunReadsTest, RecordsThatLieFarApartOrBackwardsAreReadByThemselves) {
  const FakeSource source = SourceOf(40, 900);
  const FakeData data = MakeFakeData(40, 900);
  const std::vector<uint64_t> records = {0, 4, 3, 3, 30, 32};  // gaps: 3, none, none, 26, 1
  RunRecords work;
  ASSERT_EQ(LocateRun(source, {}, Ids(records), 1, work), 6);
  const std::vector<ReadRequest> reads = MakeReads(source, work);
  ASSERT_EQ(reads.size(), 5);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(reads[i].out.size(), source.FramedBytes(source.Locate(records[i])));
  }
  const std::vector<std::string> payloads = Fetch(source, work, reads);
  for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(payloads[i], data.payloads[records[i]]);
}

TEST(RunReadsTest, ReadAloneARecordIsItsFrameAndNothingBesideIt) {
  const FakeSource source = SourceOf(10, 100);
  RunRecords work;
  ASSERT_EQ(LocateRun(source, {}, Ids({1, 3, 4}), 1, work), 3);
  work.alone = true;
  const std::vector<ReadRequest> reads = MakeReads(source, work);
  ASSERT_EQ(reads.size(), 3);
  for (size_t i = 0; i < 3; ++i) {
    const readers::RecordRef ref = source.Locate(std::vector<uint64_t>{1, 3, 4}[i]);
    EXPECT_EQ(reads[i].offset, ref.offset);
    EXPECT_EQ(reads[i].out.size(), source.FramedBytes(ref));
  }
}

TEST(RunReadsTest, TheRowsThatAnOpPrefersAreOneRunUnlessTheyAreLarge) {
  constexpr int64_t kPreferred = 16;
  const auto rows_of = [](size_t num_records, size_t payload_bytes, int64_t preferred) {
    const FakeSource source = SourceOf(num_records, payload_bytes);
    std::vector<uint64_t> records(num_records);
    std::iota(records.begin(), records.end(), 0);
    RunRecords work;
    return LocateRun(source, {}, Ids(records), preferred, work);
  };
  EXPECT_EQ(rows_of(20, 1'000, kPreferred), 20);  // small records need no preference
  // Photographs: more of them than a run has otherwise.
  EXPECT_EQ(rows_of(20, 100'000, kPreferred), kPreferred);
  EXPECT_LT(rows_of(20, 100'000, 1), kPreferred);
  // Large records: not all that are preferred, but one at least.
  EXPECT_GE(rows_of(4, 2'000'000, kPreferred), 1);
  EXPECT_LT(rows_of(4, 2'000'000, kPreferred), 4);
}

TEST(RunReadsTest, GapsCountInTheBytesOfARun) {
  const FakeSource source = SourceOf(1000, 1000);
  const auto locate = [&](uint64_t step) {
    std::vector<uint64_t> records(500);
    for (size_t i = 0; i < records.size(); ++i) records[i] = step * i;
    RunRecords work;
    const int64_t rows = LocateRun(source, {}, Ids(records), 1, work);
    EXPECT_EQ(work.rows, rows);
    return std::pair(rows, work.bytes());
  };
  const auto [rows, bytes] = locate(1);
  const auto [rows_with_gaps, bytes_with_gaps] = locate(2);
  EXPECT_GT(rows_with_gaps, 1);
  EXPECT_LE(rows_with_gaps, rows / 2 + 1);
  EXPECT_NEAR(static_cast<double>(bytes_with_gaps), static_cast<double>(bytes), 4000);
}

std::unique_ptr<const SampleWindows> WindowsOver(uint64_t records, uint64_t size, uint64_t shift) {
  const OrderSource source{.num_records = records, .total_bytes = 0, .shard_records = {}};
  return *SampleWindows::Make({.stage = "window",
                               .order = {},
                               .size = size,
                               .shift = shift,
                               .stride = 1,
                               .drop_remainder = true},
                              {&source, 1}, 0, nullptr);
}

std::vector<SampleId> FirstWindows(uint64_t count) {
  std::vector<uint64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return Ids(numbers);
}

// S-WINDOW-3.
TEST(RunReadsTest, WindowsThatOverlapAreOneReadOfTheirElements) {
  const FakeSource source = SourceOf(200, 100);
  const FakeData data = MakeFakeData(200, 100);
  const auto windows = WindowsOver(200, 24, 1);
  RunRecords work;
  ASSERT_EQ(LocateRun(source, {nullptr, windows.get()}, FirstWindows(50), 1, work), 50);
  EXPECT_EQ(work.num_rows(), 50);
  EXPECT_EQ(work.rows, 73);
  const std::vector<ReadRequest> reads = MakeReads(source, work);
  ASSERT_EQ(reads.size(), 1u);
  const std::vector<std::string> payloads = Fetch(source, work, reads);
  for (int64_t row = 0; row < 50; ++row) {
    for (size_t i = 0; i < 24; ++i) {
      EXPECT_EQ(payloads[work.elements_of(row)[i]], data.payloads[static_cast<size_t>(row) + i]);
    }
  }
}

// A record counts for each window that has it, for all of them are made of it.
TEST(RunReadsTest, ARunOfWindowsIsLimitedByTheBytesOfAllTheirElements) {
  const FakeSource source = SourceOf(400, 1'000);
  const auto windows = WindowsOver(400, 20, 1);
  RunRecords work;
  // 256 KiB, or as many as an op prefers, and no more than 3 MiB of them.
  EXPECT_EQ(LocateRun(source, {nullptr, windows.get()}, FirstWindows(300), 1, work), 13);
  EXPECT_EQ(work.rows, 32);
  work.Clear();
  EXPECT_EQ(LocateRun(source, {nullptr, windows.get()}, FirstWindows(300), 40, work), 40);
  work.Clear();
  EXPECT_EQ(LocateRun(source, {nullptr, windows.get()}, FirstWindows(300), 300, work), 156);
  // One is always made.
  const auto large = WindowsOver(400, 400, 1);
  work.Clear();
  EXPECT_EQ(LocateRun(source, {nullptr, large.get()}, FirstWindows(1), 1, work), 1);
  EXPECT_EQ(work.rows, 400);
}

TEST(RunReadsTest, ARunOfWindowsHasAFewThousandElementsAtMost) {
  const FakeSource source = SourceOf(3'000, 1);
  const auto windows = WindowsOver(3'000, 1'000, 1);
  RunRecords work;
  EXPECT_EQ(LocateRun(source, {nullptr, windows.get()}, FirstWindows(1'000), 1, work), 16);
}

// And a window's records by themselves are its elements.
TEST(RunReadsTest, ARowOfWindowsIsItsElements) {
  const FakeSource source = SourceOf(30, 100);
  const FakeData data = MakeFakeData(30, 100);
  const auto windows = WindowsOver(30, 3, 2);
  RunRecords work;
  ASSERT_EQ(LocateRun(source, {nullptr, windows.get()}, FirstWindows(10), 1, work), 10);
  const std::vector<ReadRequest> reads = MakeReads(source, work);
  Fetch(source, work, reads);
  work.read_status.assign(reads.size(), absl::OkStatus());
  const RunRecords row = RecordsOfRow(work, 4);
  EXPECT_EQ(row.num_rows(), 1);
  ASSERT_EQ(row.rows, 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(row.elements.ids[i].record, 8 + i);
    const RunRecords element = RecordsOfElement(row, static_cast<uint32_t>(i));
    EXPECT_EQ(element.windows, -1);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(element.buffer.get()),
                          data.payloads[8 + i].size()),
              data.payloads[8 + i]);
  }
}

}  // namespace
}  // namespace millrace::pipeline

#include "readers/http/expected_reads.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace millrace::readers {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::string PatternText(size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text.push_back(static_cast<char>('a' + i * i % 23));
  return text;
}

// A file whose ranges come when they are told to.
class HandFedFile : public FetchedFile {
 public:
  void Fetch(uint64_t offset, std::span<std::byte> out,
             std::function<void(absl::Status)> done) const override {
    if (no_memory_) throw std::bad_alloc();
    asked_.emplace_back(offset, out.size());
    under_way_.push_back({offset, out, std::move(done)});
  }

  // Begin and size of each range that was asked for.
  const std::vector<std::pair<uint64_t, size_t>>& asked() const { return asked_; }
  // The oldest range under way comes.
  void LandOne(const absl::Status& status = absl::OkStatus()) {
    const UnderWay range = std::move(under_way_.front());
    under_way_.erase(under_way_.begin());
    for (size_t i = 0; i < range.out.size(); ++i) {
      range.out[i] = static_cast<std::byte>(text_[range.offset + i]);
    }
    range.done(status);
  }
  void LandAll() {
    while (!under_way_.empty()) LandOne();
  }
  // From now on there is memory for a fetch, or there is none.
  void LoseMemory(bool lost) { no_memory_ = lost; }
  std::string Bytes(uint64_t offset, size_t size) const { return text_.substr(offset, size); }

 private:
  struct UnderWay {
    uint64_t offset;
    std::span<std::byte> out;
    std::function<void(absl::Status)> done;
  };
  const std::string text_ = PatternText(10'000);
  bool no_memory_ = false;
  mutable std::vector<std::pair<uint64_t, size_t>> asked_;
  mutable std::vector<UnderWay> under_way_;
};

class ExpectedReadsTest : public testing::Test {
 protected:
  ExpectedReadsTest() { reads_.SetLimit(100'000); }

  void Expect(uint64_t group, const std::vector<std::pair<uint64_t, uint64_t>>& pieces) {
    std::vector<ExpectedReads::Piece> all;
    for (const auto& [offset, bytes] : pieces) all.push_back({&file_, offset, bytes});
    reads_.Expect(group, all);
  }
  // A read whose outcome is kept.
  struct Read {
    std::string out;
    std::vector<absl::Status> done;
  };
  bool Start(uint64_t offset, size_t size, Read& read) {
    read.out.assign(size, '?');
    return reads_.StartRead(file_, offset, std::as_writable_bytes(std::span(read.out)),
                            [&](absl::Status status) { read.done.push_back(std::move(status)); });
  }

  HandFedFile file_;
  ExpectedReads reads_{1000};
};

TEST_F(ExpectedReadsTest, NeighboursAreOneRangeAndOthersAreOfTheirOwnSize) {
  Expect(0, {{500, 100}, {100, 100}, {3000, 50}, {210, 100}, {310, 90}, {700, 30}});
  EXPECT_THAT(file_.asked(),
              ElementsAre(Pair(500, 100), Pair(100, 300), Pair(3000, 50), Pair(700, 30)))
      << "in the order of their first piece; a gap of 10 bytes is fetched";
}

TEST_F(ExpectedReadsTest, NoRangeOfSeveralPiecesIsLongerThanTheLimit) {
  Expect(0, {{0, 400}, {400, 400}, {805, 400}, {5000, 3000}});
  EXPECT_THAT(file_.asked(), ElementsAre(Pair(0, 800), Pair(800, 405), Pair(5000, 3000)));
}

TEST_F(ExpectedReadsTest, APieceThatIsNamedTwiceIsFetchedOnce) {
  Expect(0, {{100, 50}, {100, 50}, {120, 10}});
  EXPECT_THAT(file_.asked(), ElementsAre(Pair(100, 50)));
}

TEST_F(ExpectedReadsTest, AReadWaitsForItsRangesAndNoLonger) {
  Expect(0, {{0, 600}, {600, 600}});
  Read across, second;
  ASSERT_TRUE(Start(550, 100, across));
  ASSERT_TRUE(Start(700, 10, second));
  file_.LandOne();
  EXPECT_THAT(across.done, IsEmpty());
  file_.LandOne();
  EXPECT_THAT(across.done, ElementsAre(absl::OkStatus()));
  EXPECT_EQ(across.out, file_.Bytes(550, 100));
  EXPECT_EQ(second.out, file_.Bytes(700, 10));
  Read later;
  EXPECT_TRUE(Start(0, 1200, later));
  EXPECT_THAT(later.done, ElementsAre(absl::OkStatus())) << "all of it is there";
  EXPECT_EQ(later.out, file_.Bytes(0, 1200));
}

TEST_F(ExpectedReadsTest, WhatIsNotExpectedIsNotStarted) {
  Expect(0, {{100, 100}});
  Read read;
  EXPECT_FALSE(Start(150, 100, read));
  EXPECT_FALSE(Start(50, 60, read));
  HandFedFile other;
  EXPECT_FALSE(reads_.StartRead(other, 100, std::as_writable_bytes(std::span(read.out)), {}));
  EXPECT_THAT(read.done, IsEmpty());
}

TEST_F(ExpectedReadsTest, OnlyWhatHasComeIsRead) {
  Expect(0, {{100, 100}});
  std::string out(10, '?');
  const auto bytes = std::as_writable_bytes(std::span(out));
  EXPECT_FALSE(reads_.TryRead(file_, 110, bytes));
  file_.LandAll();
  EXPECT_TRUE(reads_.TryRead(file_, 110, bytes));
  EXPECT_EQ(out, file_.Bytes(110, 10));
  EXPECT_EQ(reads_.unread_bytes(), 90u);
  reads_.Forget(0);
  EXPECT_FALSE(reads_.TryRead(file_, 110, bytes));
  EXPECT_EQ(reads_.unread_bytes(), 0u);
}

TEST_F(ExpectedReadsTest, WhatHasNoRoomWaitsUntilGroupsAreForgotten) {
  reads_.SetLimit(250);
  Expect(0, {{0, 100}, {1000, 100}});
  Expect(1, {{2000, 100}, {3000, 100}});
  EXPECT_THAT(file_.asked(), ElementsAre(Pair(0, 100), Pair(1000, 100)));
  file_.LandAll();
  EXPECT_EQ(file_.asked().size(), 2u);
  reads_.Forget(0);
  EXPECT_THAT(file_.asked(),
              ElementsAre(Pair(0, 100), Pair(1000, 100), Pair(2000, 100), Pair(3000, 100)));
}

// The thread that lands ranges is the client's, which nothing may get out of.
TEST_F(ExpectedReadsTest, ARangeWithoutMemoryToAskForItWaits) {
  reads_.SetLimit(250);
  Expect(0, {{0, 100}, {1000, 100}});
  Expect(1, {{2000, 100}, {3000, 100}});
  file_.LoseMemory(true);
  file_.LandOne(absl::UnavailableError("gone"));
  Read read;
  EXPECT_FALSE(Start(2000, 100, read)) << "it is read by itself";
  file_.LoseMemory(false);
  EXPECT_TRUE(Start(2000, 100, read));
  reads_.Forget(0);
  EXPECT_THAT(file_.asked(),
              ElementsAre(Pair(0, 100), Pair(1000, 100), Pair(2000, 100), Pair(3000, 100)))
      << "room is counted as if the failed fetches had never been";
  file_.LandAll();
  EXPECT_EQ(read.out, file_.Bytes(2000, 100));
}

TEST_F(ExpectedReadsTest, ARangeAboveTheLimitComesAlone) {
  reads_.SetLimit(10);
  Expect(0, {{0, 500}});
  Expect(1, {{2000, 500}});
  EXPECT_THAT(file_.asked(), ElementsAre(Pair(0, 500)));
}

TEST_F(ExpectedReadsTest, ARangeThatAReadWaitsForBeginsAtOnce) {
  reads_.SetLimit(100);
  Expect(0, {{0, 100}});
  Expect(1, {{2000, 100}, {3000, 100}});
  Read read;
  ASSERT_TRUE(Start(3000, 100, read));
  EXPECT_THAT(file_.asked(), ElementsAre(Pair(0, 100), Pair(3000, 100)));
  file_.LandAll();
  EXPECT_EQ(read.out, file_.Bytes(3000, 100));
  reads_.Forget(0);
  reads_.Forget(1);
  EXPECT_EQ(file_.asked().size(), 2u) << "nothing of a group that is gone";
}

TEST_F(ExpectedReadsTest, ARangeThatFailedIsAnErrorOfItsReadsAndThenUnknown) {
  Expect(0, {{0, 100}, {1000, 100}});
  Read failed, good;
  ASSERT_TRUE(Start(0, 10, failed));
  ASSERT_TRUE(Start(1000, 10, good));
  file_.LandOne(absl::UnavailableError("gone"));
  file_.LandAll();
  EXPECT_THAT(failed.done, ElementsAre(absl::UnavailableError("gone")));
  EXPECT_THAT(good.done, ElementsAre(absl::OkStatus()));
  EXPECT_FALSE(Start(0, 10, failed)) << "it is read again by itself";
}

TEST_F(ExpectedReadsTest, AReadOfAGroupThatIsForgottenGetsItsBytes) {
  Expect(0, {{0, 100}});
  Read read;
  ASSERT_TRUE(Start(0, 100, read));
  reads_.Forget(0);
  file_.LandAll();
  EXPECT_EQ(read.out, file_.Bytes(0, 100));
}

TEST_F(ExpectedReadsTest, EachGroupServesItsOwnReads) {
  Expect(0, {{0, 100}, {100, 100}});
  Expect(1, {{0, 100}, {100, 100}});
  file_.LandOne();
  Read first, second;
  ASSERT_TRUE(Start(100, 100, first));
  ASSERT_TRUE(Start(100, 100, second));
  EXPECT_EQ(first.done.size(), 1u);
  EXPECT_THAT(second.done, IsEmpty()) << "the bytes of the second group have not come";
  file_.LandAll();
  EXPECT_EQ(second.out, file_.Bytes(100, 100));
  Read third;
  ASSERT_TRUE(Start(100, 100, third)) << "a read too many";
  EXPECT_EQ(third.done.size(), 1u);
}

TEST_F(ExpectedReadsTest, TheSameBytesMayBeInTwoGroups) {
  Expect(0, {{0, 100}});
  Expect(1, {{0, 100}, {100, 100}});
  Read read;
  ASSERT_TRUE(Start(50, 100, read)) << "which only the second group has";
  file_.LandAll();
  EXPECT_EQ(read.out, file_.Bytes(50, 100));
  EXPECT_EQ(file_.asked().size(), 2u);
}

}  // namespace
}  // namespace millrace::readers

#include "trainer/ranks/agree.h"

#include <gmock/gmock.h>

#include <array>
#include <new>
#include <stdexcept>
#include <vector>

#include "base/record_error.h"
#include "collectives/factory.h"
#include "tests/messages.h"

namespace millrace::trainer {
namespace {

using collectives::Communicator;

// Runs `body` on `world` rank threads and returns what each got.
std::vector<absl::Status> OnRanks(int world,
                                  const std::function<absl::Status(Communicator&)>& body) {
  std::vector<absl::Status> statuses(world);
  const absl::Status status = collectives::RunRanks(world, [&](Communicator& communicator) {
    statuses[communicator.rank()] = body(communicator);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return statuses;
}

TEST(AgreeTest, TheLowestFailingRankIsEveryRanksResult) {
  const auto statuses = OnRanks(4, [](Communicator& communicator) {
    absl::Status mine;
    if (communicator.rank() == 2) mine = absl::NotFoundError("no shard");
    if (communicator.rank() == 3) mine = absl::DataLossError("later");
    return AgreeOnStatus(communicator, mine);
  });
  for (const absl::Status& status : statuses) {
    EXPECT_MESSAGE(status, absl::StatusCode::kNotFound, "every-rank");
    EXPECT_TRUE(IsAgreed(status));
  }
}

TEST(AgreeTest, OkEverywhereIsOk) {
  for (const absl::Status& status : OnRanks(3, [](Communicator& communicator) {
         return AgreeOnStatus(communicator, absl::OkStatus());
       })) {
    EXPECT_TRUE(status.ok());
  }
  EXPECT_FALSE(IsAgreed(absl::InternalError("mine alone")));
}

TEST(AgreeTest, EveryRankGetsTheRecordError) {
  const auto statuses = OnRanks(2, [](Communicator& communicator) {
    RecordError error;
    error.file = "shard";
    error.ordinal = 7;
    return AgreeOnStatus(communicator,
                         communicator.rank() == 1
                             ? MakeRecordError(absl::StatusCode::kDataLoss, error, "bad")
                             : absl::OkStatus());
  });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    ASSERT_TRUE(GetRecordError(status).has_value());
    EXPECT_EQ(GetRecordError(status)->file, "shard");
    EXPECT_EQ(GetRecordError(status)->ordinal, 7);
  }
}

TEST(AgreeTest, DifferentSettingsAreNamedOnEveryRank) {
  for (const absl::Status& status : OnRanks(3, [](Communicator& communicator) {
         const std::array<Setting, 3> settings = {
             {{"a", 1}, {"the model", communicator.rank() == 1 ? ~uint64_t{0} : 5}, {"c", 2}}};
         return CheckSameSettings(communicator, settings);
       })) {
    EXPECT_MESSAGE(status, absl::StatusCode::kInvalidArgument, "every-rank");
  }
}

TEST(AgreeTest, DifferentTextsAreNamedByTheFirstLineThatDiffers) {
  for (const absl::Status& status : OnRanks(3, [](Communicator& communicator) {
         const std::string text = communicator.rank() == 2 ? "a\nb" : "a\nc\nd";
         return CheckSameText(communicator, "the model", text, FirstDifferentLine);
       })) {
    EXPECT_MESSAGE(status, absl::StatusCode::kInvalidArgument, "every-rank");
    EXPECT_TRUE(IsAgreed(status));
  }
  for (const absl::Status& status : OnRanks(3, [](Communicator& communicator) {
         return CheckSameText(communicator, "the model", "same", FirstDifferentLine);
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(AgreeTest, ExceptionsBecomeStatuses) {
  EXPECT_TRUE(WithoutExceptions([] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(WithoutExceptions([]() -> absl::Status { throw std::bad_alloc(); }).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(WithoutExceptions([]() -> absl::Status { throw std::runtime_error("why"); }),
            absl::InternalError("exception: why"));
}

TEST(AgreeTest, TextComesFromRankZero) {
  for (const absl::Status& status : OnRanks(2, [](Communicator& communicator) {
         std::string text = communicator.rank() == 0 ? "hello" : "a longer text";
         if (absl::Status sent = BroadcastText(communicator, text); !sent.ok()) return sent;
         std::string empty = communicator.rank() == 0 ? "" : "x";
         if (absl::Status sent = BroadcastText(communicator, empty); !sent.ok()) return sent;
         return text == "hello" && empty.empty() ? absl::OkStatus() : absl::InternalError(text);
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

}  // namespace
}  // namespace millrace::trainer

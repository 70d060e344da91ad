// Errors as C sees them, of statuses that no call of C makes here.
#include "capi/call/error.h"

#include <gmock/gmock.h>

#include <new>
#include <stdexcept>

#include "base/status.h"
#include "capi/call/guard.h"

namespace millrace::capi {
namespace {

TEST(CErrorTest, OkIsNoError) { EXPECT_EQ(MakeError(absl::OkStatus()), nullptr); }

TEST(CErrorTest, AllThatAStatusHoldsIsTold) {
  absl::Status status = absl::UnavailableError("gone");
  SetRecordError(status, {"a.tfrecord", 12, 3, 45, RecordErrorReason::kImage});
  collectives::AddPeerLost(
      status, {.rank = 3, .step = 17, .bucket = 2, .phase = collectives::Phase::kReducing});
  mr_error* const error = MakeError(MarkRetryable(Annotate(status, "layer")));
  EXPECT_EQ(mr_error_code(error), MR_UNAVAILABLE);
  EXPECT_STREQ(mr_error_message(error), "layer: gone");
  EXPECT_EQ(mr_error_retryable(error), 1);
  mr_record record = {};
  record.struct_size = sizeof record;
  ASSERT_EQ(mr_error_record(error, &record), 1);
  EXPECT_STREQ(record.file, "a.tfrecord");
  EXPECT_EQ(record.offset, 12);
  EXPECT_EQ(record.ordinal, 3);
  EXPECT_EQ(record.position, 45);
  EXPECT_EQ(record.reason, MR_RECORD_IMAGE);
  mr_peer peer = {};
  EXPECT_EQ(mr_error_peer(error, &peer), 0);  // it has no size
  peer.struct_size = sizeof peer;
  ASSERT_EQ(mr_error_peer(error, &peer), 1);
  EXPECT_EQ(peer.rank, 3);
  EXPECT_EQ(peer.step, 17);
  EXPECT_EQ(peer.bucket, 2);
  EXPECT_STREQ(peer.phase, "reducing");
  mr_error_free(error);
}

TEST(CErrorTest, ExceptionsAreErrors) {
  const auto code_of = [](mr_error* error) {
    const int32_t code = mr_error_code(error);
    mr_error_free(error);
    return code;
  };
  EXPECT_EQ(code_of(Guard([]() -> absl::Status { throw std::bad_alloc(); })),
            MR_RESOURCE_EXHAUSTED);
  EXPECT_EQ(code_of(Guard([]() -> absl::Status { throw std::runtime_error("x"); })), MR_INTERNAL);
  EXPECT_EQ(code_of(Guard([]() -> absl::Status { throw 1; })), MR_INTERNAL);
}

}  // namespace
}  // namespace millrace::capi

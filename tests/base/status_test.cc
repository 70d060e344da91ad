// Status helpers and RecordError.
#include "base/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "base/record_error.h"

namespace millrace {
namespace {

using testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

absl::Status ReturnTwice(const absl::Status& first, bool& reached) {
  MILLRACE_RETURN_IF_ERROR(first);
  reached = true;
  MILLRACE_RETURN_IF_ERROR(absl::OkStatus());
  return absl::OkStatus();
}

TEST(StatusMacros, ReturnIfErrorReturnsOnlyErrors) {
  bool reached = false;
  EXPECT_EQ(ReturnTwice(absl::AbortedError("x"), reached), absl::AbortedError("x"));
  EXPECT_FALSE(reached);
  EXPECT_TRUE(ReturnTwice(absl::OkStatus(), reached).ok());
  EXPECT_TRUE(reached);
}

absl::StatusOr<int> Add(absl::StatusOr<std::unique_ptr<int>> a, absl::StatusOr<int> b) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<int> left, std::move(a));
  int right = 0;
  MILLRACE_ASSIGN_OR_RETURN(right, b);
  return *left + right;
}

TEST(StatusMacros, AssignOrReturnMovesValuesAndReturnsErrors) {
  EXPECT_EQ(*Add(std::make_unique<int>(2), 3), 5);
  EXPECT_EQ(Add(absl::NotFoundError("a"), 3).status(), absl::NotFoundError("a"));
  EXPECT_EQ(Add(std::make_unique<int>(2), absl::DataLossError("b")).status(),
            absl::DataLossError("b"));
}

TEST(Annotate, KeepsTheCodeAndEveryPayload) {
  absl::Status status = absl::DataLossError("bad");
  status.SetPayload("one", absl::Cord("1"));
  SetRecordError(status, {.file = "shard", .ordinal = 4});
  const absl::Status annotated = Annotate(Annotate(status, "inner"), "outer");
  EXPECT_EQ(annotated.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Message(annotated), "outer: inner: bad");
  EXPECT_EQ(std::string(*annotated.GetPayload("one")), "1");
  ASSERT_TRUE(GetRecordError(annotated).has_value());
  EXPECT_EQ(GetRecordError(annotated)->ordinal, 4);
}

TEST(Annotate, OkStaysOk) { EXPECT_TRUE(Annotate(absl::OkStatus(), "context").ok()); }

TEST(IsRetryable, IsTheMarkAloneAndSurvivesAnnotate) {
  const absl::Status full = absl::ResourceExhaustedError("full");
  EXPECT_FALSE(IsRetryable(full));
  EXPECT_FALSE(IsRetryable(absl::OkStatus()));
  const absl::Status marked = Annotate(MarkRetryable(full), "outer");
  EXPECT_TRUE(IsRetryable(marked));
  EXPECT_EQ(marked.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Message(marked), "outer: full");
}

TEST(ErrnoStatus, NamesTheSubjectAndTheCall) {
  const absl::Status status = ErrnoStatus(ENOENT, "open", "/no/such/file");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(status), HasSubstr("/no/such/file"));
  EXPECT_THAT(Message(status), HasSubstr("open"));
  EXPECT_EQ(ErrnoStatus(EACCES, "open", "x").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ErrnoStatus(ENOSPC, "write", "x").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrnoStatus(EFBIG, "write", "x").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrnoStatus(ELOOP, "open", "x").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrnoStatus(ENAMETOOLONG, "open", "x").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(ErrnoStatus(EFBIG, "write", "x")), "x: write: File too large");
}

TEST(RecordError, ComesBackAsItWasSet) {
  for (const std::string& file :
       {std::string("a.tfrecord"), std::string("two\nlines\n1 2 3 4"), std::string("nul\0in", 6),
        std::string(" 7 8 9 1"), std::string()}) {
    absl::Status status = absl::DataLossError("bad");
    SetRecordError(status, {.file = file,
                            .offset = int64_t{1} << 40,
                            .ordinal = 12,
                            .position = -1,
                            .reason = RecordErrorReason::kTruncatedPayload});
    const auto error = GetRecordError(status);
    ASSERT_TRUE(error.has_value()) << file;
    EXPECT_EQ(error->file, file);
    EXPECT_EQ(error->offset, int64_t{1} << 40);
    EXPECT_EQ(error->ordinal, 12);
    EXPECT_EQ(error->position, -1);
    EXPECT_EQ(error->reason, RecordErrorReason::kTruncatedPayload);
  }
}

TEST(RecordError, TheLastOneSetIsTheOneThatStays) {
  absl::Status status = absl::DataLossError("bad");
  SetRecordError(status, {.file = "first"});
  SetRecordError(status, {.file = "second", .position = 3});
  EXPECT_EQ(GetRecordError(status)->file, "second");
  EXPECT_EQ(GetRecordError(status)->position, 3);
}

TEST(RecordError, AbsentOrMalformedIsNullopt) {
  EXPECT_FALSE(GetRecordError(absl::OkStatus()).has_value());
  absl::Status status = absl::DataLossError("bad");
  EXPECT_FALSE(GetRecordError(status).has_value());
  for (const char* payload : {"", "1 2 3 4", "1 2 3\nfile", "x\nfile", "1 2\n3 4\nfile"}) {
    status.SetPayload("millrace/record_error", absl::Cord(payload));
    EXPECT_FALSE(GetRecordError(status).has_value()) << payload;
  }
}

TEST(RecordError, TheMessageSaysWhatIsKnown) {
  EXPECT_EQ(Message(MakeRecordError(absl::StatusCode::kDataLoss,
                                    {.file = "f", .offset = 16, .ordinal = 2}, "bad crc")),
            "f: record 2 at offset 16: bad crc");
  EXPECT_EQ(
      Message(MakeRecordError(absl::StatusCode::kDataLoss, {.file = "f", .offset = 16}, "bad")),
      "f: at offset 16: bad");
  EXPECT_EQ(Message(MakeRecordError(absl::StatusCode::kDataLoss, {.file = "f"}, "bad")), "f: bad");
}

TEST(RecordError, EveryReasonHasAName) {
  EXPECT_EQ(RecordErrorReasonName(RecordErrorReason::kLengthCrc), "length_crc");
  for (int32_t reason = 1; reason <= 12; ++reason) {
    EXPECT_NE(RecordErrorReasonName(static_cast<RecordErrorReason>(reason)), "unknown") << reason;
  }
  EXPECT_EQ(RecordErrorReasonName(static_cast<RecordErrorReason>(999)), "unknown");
}

}  // namespace
}  // namespace millrace

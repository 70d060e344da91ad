#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "pipeline/audit.h"
#include "pipeline/audit/samples.h"
#include "tests/messages.h"
#include "tests/pipeline/audit/audit_fixture.h"

// Audit logs as files: torn, damaged, of another stream, in use; and the set of samples that the
// checker keeps.

namespace millrace::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

using AuditLogTest = AuditTest;

TEST_F(AuditLogTest, ABlockThatAKillToreIsCutOffAndDeliveredAgain) {
  // S-VISIT-3.
  Log("a", 0, 1, 0, 5);
  const auto size = std::filesystem::file_size(Path("a"));
  std::filesystem::resize_file(Path("a"), size - 3);
  Log("a", 0, 1, 4, 7, true);
  const AuditReport report = Check({"a"});
  EXPECT_TRUE(report.exactly_once()) << Words(report);
  EXPECT_EQ(report.withdrawn_slices, 0u);
}

TEST_F(AuditLogTest, ATruncatedLogProvesNothing) {
  // S-VISIT-3: wherever it is cut.
  Log("whole", 0, 1, 0, 7, true);
  std::ifstream in(Path("whole"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  ASSERT_TRUE(Check({"whole"}).proven());
  for (size_t size = 0; size < bytes.size(); ++size) {
    std::ofstream(Path("cut"), std::ios::binary).write(bytes.data(), static_cast<long>(size));
    const AuditReport report = Check({"cut"});
    ASSERT_FALSE(report.proven()) << size;
    if (size > 0) {
      ASSERT_FALSE(report.notes.empty()) << size;
    }
  }
}

TEST_F(AuditLogTest, ATruncatedLogOfOneRankIsALossWhenAnotherSawTheEnd) {
  // S-VISIT-3.
  Log("a", 0, 2, 0, 7, true);
  Log("b", 1, 2, 0, 7, true);
  std::filesystem::resize_file(Path("b"), std::filesystem::file_size(Path("b")) - 90);
  const AuditReport report = Check({"a", "b"});
  EXPECT_GT(report.num_violations, 0u);
  EXPECT_GT(report.lost_rows, 0u);
  EXPECT_THAT(report.notes, Contains(HasSubstr("torn block")));
}

TEST_F(AuditLogTest, DamageInTheMiddleIsCaughtAndNeverOverwritten) {
  // S-VISIT-3: every byte counts.
  Log("whole", 0, 1, 0, 7, true);
  std::ifstream in(Path("whole"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  for (size_t at = 0; at + 60 < bytes.size(); at += 5) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    std::ofstream(Path("bad"), std::ios::binary) << damaged;
    ASSERT_GT(Check({"bad"}).num_violations, 0u) << at;
    ASSERT_FALSE(AuditLog::Open(Path("bad"), Header(0, 1, 0, 5)).ok()) << at;
    ASSERT_EQ(std::filesystem::file_size(Path("bad")), bytes.size());
  }
}

TEST_F(AuditLogTest, ALogOfAnotherPlanIsRefusedAndCaught) {
  // S-VISIT-4.
  Log("a", 0, 2, 0, 7, true);
  AuditHeader other = Header(1, 2, 0, 5);
  other.plan_fingerprint = 0x1234;
  {
    auto log = AuditLog::Open(Path("b"), other);
    ASSERT_TRUE(log.ok());
    for (uint64_t i = 0; i < 7; ++i) ASSERT_TRUE((*log)->Add(Slice(i, 1, 2)).ok());
  }
  const AuditReport report = Check({"a", "b"});
  EXPECT_FALSE(report.proven());
  EXPECT_THAT(report.violations,
              Contains(AllOf(HasSubstr("does not belong to"), HasSubstr(Path("b")))));
  const auto refused = AuditLog::Open(Path("a"), other);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_MESSAGE(refused.status());
}

TEST_F(AuditLogTest, AFileThatIsNoLogIsNeverTouched) {
  const std::string text = "a file that somebody named by mistake\n";
  std::ofstream(Path("notes.txt")) << text;
  EXPECT_EQ(AuditLog::Open(Path("notes.txt"), Header(0, 1, 0, 1)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::filesystem::file_size(Path("notes.txt")), text.size());
  EXPECT_THAT(Check({"notes.txt"}).violations, Contains(HasSubstr("is no audit log")));
}

TEST_F(AuditLogTest, ALogIsWrittenByOneAtATime) {
  const auto first = AuditLog::Open(Path("a"), Header(0, 1, 0, 1));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(AuditLog::Open(Path("a"), Header(0, 1, 0, 2)).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(SampleSetTest, AgreesWithASetOfIds) {
  std::set<std::pair<uint64_t, uint64_t>> oracle;
  SampleSet set;
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const SampleId id = {0, random() % 9000, random() % 3 == 0 ? random() % 200 : 0};
    EXPECT_EQ(set.Insert(id), oracle.insert({id.record, id.sub_index}).second);
  }
  EXPECT_EQ(set.size(), oracle.size());
  for (uint64_t record = 0; record < 9000; ++record) {
    for (const uint64_t sub : {uint64_t{0}, random() % 200}) {
      EXPECT_EQ(set.Contains({5, record, sub}), oracle.contains({record, sub}));
    }
  }
  EXPECT_FALSE(set.Contains({0, ~uint64_t{0}, 0}));
}

}  // namespace
}  // namespace millrace::pipeline

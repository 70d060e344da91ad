#include <optional>
#include <random>

#include "readers/cache_folder.h"
#include "tests/readers/inflate/deflated.h"
#include "tests/readers/source/record_source_fixture.h"

// Opening ends where its caller wants that, and keeps no index.

namespace millrace::readers {
namespace {

struct Kind {
  const char* name;
  ContainerKind container;
  std::optional<Wrapper> wrapper = {};
  bool resync = false;
};

// Of 1.5 MiB that do not compress well, so that it is not walked or inflated in one step.
std::string BytesOf(const Kind& kind) {
  std::minstd_rand random(7);
  std::string bytes;
  for (int i = 0; i < 400; ++i) {
    std::string record;
    while (record.size() < 4000) record.push_back(static_cast<char>('0' + random() % 64));
    bytes += kind.container == ContainerKind::kTfRecord ? Frame(record) : record + "\n";
  }
  if (kind.container == ContainerKind::kTfRecord && kind.resync) {
    bytes[8] = static_cast<char>(~bytes[8]);
  }
  return kind.wrapper.has_value() ? Deflated(bytes, *kind.wrapper) : bytes;
}

class CancelledOpenTest : public RecordSourceFixture, public testing::WithParamInterface<Kind> {
 protected:
  void SetUp() override {
    options_.container.kind = GetParam().container;
    options_.resync = GetParam().resync;
  }
};

TEST_P(CancelledOpenTest, KeepsNoIndexAndMayBeOpenedAgain) {
  const std::vector<std::string> files = {Shard("a", BytesOf(GetParam())),
                                          Shard("b", BytesOf(GetParam()))};
  int asked = 0;
  options_.cancels = [&] { return ++asked > 6; };
  const auto cancelled = RecordSource::Open(files, options_);
  EXPECT_TRUE(absl::IsCancelled(cancelled.status())) << cancelled.status();
  EXPECT_EQ(IndexFile(), "");
  EXPECT_LT(asked, 10);  // nothing goes on behind that
  options_.cancels = {};
  EXPECT_TRUE(RecordSource::Open(files, options_).ok());
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, CancelledOpenTest,
    testing::Values(Kind{"TfRecord", ContainerKind::kTfRecord},
                    Kind{"DamagedTfRecord", ContainerKind::kTfRecord, {}, true},
                    Kind{"GzipTfRecord", ContainerKind::kTfRecord, Wrapper::kGzip},
                    Kind{"Text", ContainerKind::kText}, Kind{"Csv", ContainerKind::kCsv},
                    Kind{"JudgedCsv", ContainerKind::kCsv, {}, true},
                    Kind{"GzipText", ContainerKind::kText, Wrapper::kGzip}),
    [](const auto& test) { return std::string(test.param.name); });

using CancelledWaitTest = RecordSourceFixture;

TEST_F(CancelledWaitTest, AnotherProcessThatMakesTheIndexIsNotAwaited) {
  const std::vector<std::string> files = {Shard("a", Frames(Payloads(10, 1)))};
  ASSERT_TRUE(Open(files).ok());
  const std::string index = IndexFile();
  const UniqueFd lock = CacheFolder(index_.path()).Lock(index, {});
  ASSERT_TRUE(lock.valid());
  std::filesystem::remove(index);
  int asked = 0;
  options_.cancels = [&] { return ++asked > 10; };
  EXPECT_TRUE(absl::IsCancelled(Open(files).status()));
  EXPECT_EQ(IndexFile(), "");
}

}  // namespace
}  // namespace millrace::readers

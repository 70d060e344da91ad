#include <algorithm>
#include <atomic>

#include "readers/convert.h"
#include "tests/readers/convert/convert_fixture.h"
#include "tests/readers/http/http_server.h"

// Conversions that end before a record is written.

namespace millrace::readers {
namespace {

class ConvertCancelTest : public ConvertFixture {
 protected:
  static int NumFiles(const std::filesystem::path& folder, std::string_view ending) {
    if (!std::filesystem::exists(folder)) return 0;
    return static_cast<int>(std::ranges::count_if(
        std::filesystem::directory_iterator(folder),
        [&](const auto& entry) { return entry.path().string().ends_with(ending); }));
  }
};

TEST_F(ConvertCancelTest, WhileTheInputIsIndexed) {
  for (const int threads : {1, 3}) {
    std::string bytes;
    while (bytes.size() < 1 << 20) bytes += std::string(4000, 'x') + "\n";
    const std::string lines = Write("lines", bytes);
    ConvertOptions options =
        Options(ConvertFormat::kText, {lines, lines}, ConvertFormat::kTfRecord);
    options.feature = "line";
    options.threads = threads;
    std::atomic<bool> walked = false;
    options.index_progress = [&](int64_t, int64_t) { walked = true; };
    options.cancels = [&] { return walked.load(); };
    EXPECT_TRUE(absl::IsCancelled(Convert(options).status()));
    EXPECT_EQ(NumFiles(Path("indexes"), ".index"), 0);
    EXPECT_EQ(NumFiles(Path("out"), ""), 0);
    options.cancels = {};
    EXPECT_EQ(Run(options).size(), 1u);
    std::filesystem::remove_all(Path("indexes"));
    std::filesystem::remove_all(Path("out"));
    std::filesystem::create_directory(Path("out"));
  }
}

TEST_F(ConvertCancelTest, WhileAServerHangs) {
  WriteTfRecord(Path("in"), {"one", "two", "three"});
  const std::string bytes = ReadFile(Path("in"));
  for (const int threads : {1, 3}) {
    // The index is made and kept at first: to open the file, and for its bytes.
    const auto good = Good(bytes);
    const ScriptServer server(
        {good, good, good, [](Exchange& exchange) { exchange.WaitUntilClientIsGone(); }});
    ConvertOptions options = Options(ConvertFormat::kTfRecord, {server.Url("a")},
                                     ConvertFormat::kTfRecord, "t" + std::to_string(threads));
    options.threads = threads;
    options.quarantine_file = Path("quarantine");
    Run(options);
    ASSERT_EQ(server.requests().size(), 2u);
    options.overwrite = true;
    options.cancels = [&] { return server.requests().size() == 4; };
    EXPECT_TRUE(absl::IsCancelled(Convert(options).status()));
    EXPECT_EQ(ReadFile(Path("quarantine")), "");  // the record that was not read is not bad
  }
}

}  // namespace
}  // namespace millrace::readers

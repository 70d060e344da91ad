#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "readers/damage/parts.h"
#include "tests/temp_files.h"

// Blank lines of JSON lines, where the walk goes on behind damage: they belong to what is before
// them.

namespace millrace::readers {
namespace {

// S-SOURCE-3, S-DAMAGE-11.
TEST(BlankPartsTest, BlankLinesAroundDamageAreNoParts) {
  const TempFolder folder;
  const std::string longest(40, 'x');
  WriteFile(folder / "a.jsonl", "\n \n{}\n\n" + longest + "\n\r\n\t\n{\"a\":1}\n\n\n");
  ContainerOptions json = ContainerOfName("a.jsonl");
  ASSERT_TRUE(json.skips_blank);
  const auto shard = OpenInflated(folder / "a.jsonl", Compression::kNone, json);
  ASSERT_TRUE(shard.ok()) << shard.status();
  std::vector<std::string> parts;
  const auto see = [&](const ShardPart& part) {
    parts.push_back(part.damage.ok() ? std::string(part.payload) : "damage");
    return absl::OkStatus();
  };
  ASSERT_TRUE(WalkParts(*shard, json, /*max_record_bytes=*/20, see).ok());
  EXPECT_EQ(parts, (std::vector<std::string>{"{}", "damage", "{\"a\":1}"}));
}

}  // namespace
}  // namespace millrace::readers

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/run.h"
#include "readers/text/csv_row.h"
#include "tests/messages.h"
#include "tests/readers/container/container_fixture.h"
#include "tests/readers/inflate/deflated.h"
#include "tests/sanitized.h"

// Text of any system: line ends, byte order marks, other encodings. Expected lines are those of
// Python's universal newlines, and rows those of its csv module.

namespace millrace::readers {
namespace {

ContainerOptions Csv(bool has_header = false) {
  ContainerOptions csv = Kind(ContainerKind::kCsv);
  csv.has_header = has_header;
  return csv;
}

// Lines by the definition, character by character.
Strings SlowLines(const std::string& bytes) {
  Strings lines;
  std::string line;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '\n' && bytes[i] != '\r') {
      line += bytes[i];
      continue;
    }
    if (bytes[i] == '\r' && i + 1 < bytes.size() && bytes[i + 1] == '\n') ++i;
    lines.push_back(std::exchange(line, ""));
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

Strings CellsOf(const std::string& row) {
  RunArena arena;
  std::vector<internal::CsvCell> cells(10);
  const auto count = internal::SplitCsvRow(row, ',', arena, cells);
  EXPECT_TRUE(count.ok()) << count.status() << " of " << row;
  Strings texts;
  for (size_t i = 0; i < count.value_or(0); ++i) texts.emplace_back(cells[i].text);
  return texts;
}

class LineEndsTest : public ContainerTest {
 protected:
  // `count` bytes of `alphabet`.
  std::string Drawn(std::string_view alphabet, int count) {
    std::string bytes;
    for (int i = 0; i < count; ++i) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      bytes += alphabet[(state_ >> 33) % alphabet.size()];
    }
    return bytes;
  }
  uint64_t state_ = 1;
};

// S-SOURCE-3.
TEST_F(LineEndsTest, EveryLineEndEndsALineOfTextAlsoMixed) {
  const ContainerOptions text = Kind(ContainerKind::kText);
  ExpectRead(text, "a\rb\rc", {"a", "b", "c"});
  ExpectRead(text, "a\rb\rc\r", {"a", "b", "c"});
  ExpectRead(text, "a\r\rb\r\n\r\nc\n\rd\r\r\n", {"a", "", "b", "", "c", "", "d", ""});
  ExpectRead(text, "\r", {""});
  ExpectRead(text, "last\r", {"last"});
  for (int i = 0; i < 200; ++i) {
    const std::string bytes = Drawn("\r\n\rab", 1 + i % 40);
    ExpectRead(text, bytes, SlowLines(bytes));
  }
}

// S-SOURCE-4.
TEST_F(LineEndsTest, EveryLineEndEndsARowOfCsvButInQuotes) {
  ExpectRead(Csv(), "a,b\r1,2\r3,4\r", {"a,b", "1,2", "3,4"});
  ExpectRead(Csv(/*has_header=*/true), "a,b\r1,2\r\r\n\n3,4", {"1,2", "3,4"});
  ExpectRead(Csv(), "\"x\ry\",1\r\"\r\"\n\"\r\n\",2\r\n", {"\"x\ry\",1", "\"\r\"", "\"\r\n\",2"});
}

// S-SOURCE-4. What Python's csv module and pandas make of files (scripts/make_csv_lines.py).
TEST_F(LineEndsTest, RowsOfCsvAreThoseOfPythonAndPandas) {
  const auto files = nlohmann::json::parse(ReadFile(TestData("csv_lines.json"))).at("files");
  EXPECT_EQ(files.size(), 40u);
  for (const auto& file : files) {
    const auto text = file.at("text").get<std::string>();
    const auto records = Read(Csv(), text);
    ASSERT_TRUE(records.ok()) << records.status() << " of " << text;
    std::vector<Strings> rows;
    for (const std::string& record : *records) rows.push_back(CellsOf(record));
    EXPECT_EQ(rows, file.at("rows").get<std::vector<Strings>>()) << text;
  }
}

// A line end of two bytes may lie in two windows.
TEST_F(LineEndsTest, LinesAcrossWindowsAreWhole) {
  for (const char* end : {"\r", "\r\n", "\n"}) {
    Strings want;
    std::string bytes;
    for (const size_t size : {size_t{262'142}, size_t{1}, size_t{262'143}, size_t{262'144},
                              size_t{262'141}, size_t{600'000}, size_t{2}}) {
      want.emplace_back(size, 'x');
      bytes += want.back() + end;
    }
    for (const ContainerKind kind : {ContainerKind::kText, ContainerKind::kCsv}) {
      ExpectRead(Kind(kind), bytes, want);
      ExpectRead(Kind(kind), Deflated(bytes, Wrapper::kGzip), want);
    }
  }
}

// S-DAMAGE-11.
TEST_F(LineEndsTest, RowsThatAreJudgedBeginWhereOthersDo) {
  for (int i = 0; i < 200; ++i) {
    std::string bytes = Drawn("\r\n\rab", 1 + i % 40);
    if (i % 2 == 1) bytes += "\r\"" + Drawn("\r\na", 5) + "\"\r" + Drawn("\r\nab", 9);
    options_.resync = false;
    const auto plain = Read(Csv(), bytes);
    options_.resync = true;
    const auto judged = Read(Csv(), bytes);
    ASSERT_TRUE(plain.ok() && judged.ok()) << plain.status() << judged.status() << bytes;
    EXPECT_EQ(*plain, *judged) << bytes;
  }
}

// S-SOURCE-3. What Python makes of `[line for line in file if line.strip(" \t")]`.
TEST_F(LineEndsTest, BlankLinesOfJsonLinesAreNoRecords) {
  ContainerOptions json = Kind(ContainerKind::kText);
  json.skips_blank = true;
  ExpectRead(json, "{}\n\n{\"a\":1}\n\n", {"{}", "{\"a\":1}"});
  ExpectRead(json, "\xef\xbb\xbf\r\n \t\n{} \r\n\t\r\n {}", {"{}", " {}"});
  ExpectRead(json, " \n\r", {});
  ExpectRead(json, "", {});
  for (int i = 0; i < Rounds(300); ++i) {
    const std::string bytes = Drawn("\r\n\n \tab", 1 + i % 40);
    Strings want = SlowLines(bytes);
    for (std::string& line : want) line.erase(line.find_last_not_of(" \t") + 1);
    std::erase(want, "");
    ExpectRead(json, bytes, want);
    // The same where the walk goes on behind damage: a line that is too long.
    options_.resync = true;
    options_.max_record_bytes = 100;
    ExpectRead(json, bytes, want);
    options_.resync = false;
    options_.max_record_bytes = uint64_t{1} << 30;
  }
}

// S-SOURCE-11.
TEST_F(LineEndsTest, AByteOrderMarkIsNoPartOfTheFirstRecord) {
  for (const bool resync : {false, true}) {
    options_.resync = resync;
    ExpectRead(Kind(ContainerKind::kText), "\xef\xbb\xbf{\"a\":1}\n\xef\xbb\xbfx\n",
               {"{\"a\":1}", "\xef\xbb\xbfx"});
    ExpectRead(Kind(ContainerKind::kText), "\xef\xbb\xbf", {});
    ExpectRead(Csv(), "\xef\xbb\xbf\"a\",b\r\n1,2\r\n", {"\"a\",b", "1,2"});
    ExpectRead(Csv(/*has_header=*/true), "\xef\xbb\xbf\"a\nb\",b\n1,2\n", {"1,2"});
    ExpectRead(Csv(), Deflated("\xef\xbb\xbf\"a\"\n", Wrapper::kGzip), {"\"a\""});
  }
}

// S-SOURCE-11.
TEST_F(LineEndsTest, Utf16IsNamed) {
  const auto text = Kind(ContainerKind::kText);
  keep_name_ = true;
  for (const std::string_view bytes :
       {std::string_view("\xff\xfe\x61\0\n\0", 6), std::string_view("\xfe\xff\0\x61", 4),
        std::string_view("a\0b\0", 4), std::string_view("\0a\0b", 4)}) {
    ExpectDamage(text, bytes, Reason::kExample, 0, 0);
    ExpectDamage(Csv(), bytes, Reason::kExample, 0, 0);
    EXPECT_MESSAGE(Read(text, bytes).status(), "utf16");
  }
  EXPECT_MESSAGE(Read(text, std::string_view("\xff\xfe\0\0a\0\0\0", 8)).status(), "utf32");
  ExpectRead(text, std::string("\0\1\0\2", 4), {std::string("\0\1\0\2", 4)});
}

}  // namespace
}  // namespace millrace::readers

#include "tests/readers/container/container_fixture.h"

// Containers other than TFRecord: where records begin and end, and what is said of damage.

namespace millrace::readers {
namespace {

// S-SOURCE-2.
TEST_F(ContainerTest, FixedLengthRecordsLieBetweenHeaderAndFooter) {
  ExpectRead(FixedLength(2, 3, 1), "HHaaabbbcccF", {"aaa", "bbb", "ccc"});
  ExpectRead(FixedLength(0, 1, 0), "xyz", {"x", "y", "z"});
  ExpectRead(FixedLength(2, 3, 1), "HHF", {});
  ExpectRead(FixedLength(0, 3, 0), "", {});
  EXPECT_EQ(IndexFile(), "") << "nothing to keep";
}

// S-SOURCE-2.
TEST_F(ContainerTest, AFixedLengthFileThatDoesNotFitNamesWhereItBreaksOff) {
  ExpectDamage(FixedLength(2, 3, 1), "HHaaabbF", Reason::kTruncatedPayload, 5, 1);
  ExpectDamage(FixedLength(2, 3, 1), "HH", Reason::kTruncatedPayload, 2, 0);
  ExpectDamage(FixedLength(2, 3, UINT64_MAX), "HHaaaF", Reason::kTruncatedPayload, 6, 0);
  options_.max_record_bytes = 2;
  ExpectDamage(FixedLength(0, 3, 0), "aaa", Reason::kAbsurdLength, 0, 0);
}

// S-SOURCE-3.
TEST_F(ContainerTest, TextRecordsAreLinesAsTextLineDatasetHasThem) {
  const ContainerOptions text = Kind(ContainerKind::kText);
  ExpectRead(text, "one\ntwo\r\n\n\r\nlast", {"one", "two", "", "", "last"});
  ExpectRead(text, "one\n", {"one"});
  ExpectRead(text, "\n\n", {"", ""});
  ExpectRead(text, "", {});
}

TEST_F(ContainerTest, LinesOfMoreThanAWindowAndAcrossWindowsAreWhole) {
  Strings want;
  std::string bytes;
  for (const size_t size : {size_t{262'143}, size_t{1}, size_t{262'144}, size_t{600'000}, size_t{0},
                            size_t{262'141}, size_t{3}}) {
    want.emplace_back(size, 'x');
    bytes += want.back() + (size % 2 == 0 ? "\r\n" : "\n");
  }
  ExpectRead(Kind(ContainerKind::kText), bytes, want);
  std::erase(want, "");
  ExpectRead(Kind(ContainerKind::kCsv), bytes, want);
}

// S-SOURCE-9.
TEST_F(ContainerTest, ALineAboveTheLimitIsAnErrorAndCannotBeBuffered) {
  options_.max_record_bytes = 5;
  ExpectRead(Kind(ContainerKind::kText), "1234\n12345", {"1234", "12345"});
  for (const auto kind : {ContainerKind::kText, ContainerKind::kCsv}) {
    ExpectDamage(Kind(kind), "1\n12345\n", Reason::kAbsurdLength, 2, 1);
    ExpectDamage(Kind(kind), "1\n123456", Reason::kAbsurdLength, 2, 1);
  }
  ExpectDamage(Kind(ContainerKind::kCsv), "1\n\n\n\n\n\n\n2", Reason::kAbsurdLength, 0, 0);
  ExpectDamage(Kind(ContainerKind::kCsv), "1\n\n\n\n\n\n\n", Reason::kAbsurdLength, 0, 0);
}

// S-SOURCE-4.
TEST_F(ContainerTest, CsvRowsMayHoldLineBreaksInQuotes) {
  const ContainerOptions csv = Kind(ContainerKind::kCsv);
  ExpectRead(csv, "a,b\r\n\"x\ny\",\"\"\"\n\"\r\nlast", {"a,b", "\"x\ny\",\"\"\"\n\"", "last"});
  ExpectRead(csv, "\"\"\n\"a\"\"\n\"\n", {"\"\"", "\"a\"\"\n\""});
  ExpectRead(csv, "5\" disk\n3\" disk\n", {"5\" disk", "3\" disk"});
  ExpectRead(csv, "\n\r\na\n\n\r\n\nb\n\n", {"a", "b"});
  ExpectRead(csv, "\n\r\n\r", {});
  ExpectRead(csv, "", {});
  ContainerOptions tabs = csv;
  tabs.delimiter = '\t';
  ExpectRead(tabs, "a,\"b\n\"c\t\"d\n", {"a,\"b", "\"c\t\"d"});
}

// S-SOURCE-4.
TEST_F(ContainerTest, AHeaderOfCsvIsNoRecord) {
  ContainerOptions csv = Kind(ContainerKind::kCsv);
  csv.has_header = true;
  ExpectRead(csv, "\n\"na\nme\",x\n\n1,2\n3,4", {"1,2", "3,4"});
  ExpectRead(csv, "name\n", {});
  EXPECT_EQ(Read(csv, "").status().code(), absl::StatusCode::kInvalidArgument);
}

// S-SOURCE-4.
TEST_F(ContainerTest, AQuoteThatIsNeverClosedIsDamageNotALongRow) {
  ExpectDamage(Kind(ContainerKind::kCsv), "a\nb,\"c\nd\ne\n", Reason::kTruncatedPayload, 2, 1);
  ContainerOptions csv = Kind(ContainerKind::kCsv);
  csv.has_header = true;
  ExpectDamage(csv, "a\nb,\"c\nd\ne\n", Reason::kTruncatedPayload, 2, 0);
}

// Rows by the definition, character by character.
Strings SlowRows(const std::string& bytes) {
  Strings rows;
  std::string row;
  bool quoted = false;
  bool field_start = true;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    if (quoted && c == '"' && i + 1 < bytes.size() && bytes[i + 1] == '"') {
      row += "\"\"";
      ++i;
      continue;
    }
    if (c == '"' && (quoted || field_start)) quoted = !quoted;
    field_start = !quoted && c == ',';
    if ((c == '\n' || c == '\r') && !quoted) {
      rows.push_back(row);
      row.clear();
      field_start = true;
    } else {
      row += c;
    }
  }
  rows.push_back(row);
  std::erase(rows, "");
  return rows;
}

TEST_F(ContainerTest, DrawnCsvIsCutAsItsDefinitionSays) {
  uint64_t state = 1;
  int whole = 0;
  for (int i = 0; i < 300; ++i) {
    std::string bytes;
    for (int k = 0; k < 40; ++k) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      bytes += std::string_view("\"\",,\n\r\nabc\"\n").at(state >> 33 & 7);
    }
    bytes += "\n";
    const auto got = Read(Kind(ContainerKind::kCsv), bytes);
    if (!got.ok()) continue;  // ends inside quotes
    ++whole;
    EXPECT_EQ(*got, SlowRows(bytes)) << bytes;
  }
  EXPECT_GT(whole, 100);
}

// S-SOURCE-6.
TEST_F(ContainerTest, IdxRecordsAreTheElementsOfTheFirstDimension) {
  const ContainerOptions idx = Kind(ContainerKind::kIdx);
  ExpectRead(idx, Idx(8, {3, 2, 2}, "aaaabbbbcccc"), {"aaaa", "bbbb", "cccc"});
  ExpectRead(idx, Idx(8, {3}, "xyz"), {"x", "y", "z"});
  ExpectRead(idx, Idx(0x0d, {2, 1}, "ffffFFFF"), {"ffff", "FFFF"});
  ExpectRead(idx, Idx(8, {0, 28, 28}, ""), {});
  ExpectRead(idx, Deflated(Idx(8, {3}, "xyz"), Wrapper::kZlib), {"x", "y", "z"});
  EXPECT_EQ(IndexFile(), "") << "nothing to keep";
}

// S-SOURCE-6.
TEST_F(ContainerTest, AnIdxFileHasToBeAsLongAsItsHeaderSays) {
  const ContainerOptions idx = Kind(ContainerKind::kIdx);
  const std::string good = Idx(8, {3, 2, 2}, "aaaabbbbcccc");
  ExpectDamage(idx, good.substr(0, 25), Reason::kTruncatedPayload, 24, 2);
  ExpectDamage(idx, good + "x", Reason::kUnknown, 28, 3);
  ExpectDamage(idx, good.substr(0, 15), Reason::kTruncatedHeader, 15, 0);
  ExpectDamage(idx, good.substr(0, 3), Reason::kTruncatedHeader, 3, 0);
  ExpectDamage(idx, Idx(7, {3}, "xyz"), Reason::kUnknown, 0, 0);
  ExpectDamage(idx, Idx(8, {}, ""), Reason::kUnknown, 0, 0);
  ExpectDamage(idx, Idx(8, {3, 0}, ""), Reason::kUnknown, 8, 0);
  ExpectDamage(idx, Idx(8, {1, 0xffffffff, 0xffffffff, 0xffffffff}, ""), Reason::kAbsurdLength, 8,
               0);
  options_.compression = Compression::kNone;
  ExpectDamage(idx, Deflated(good, Wrapper::kGzip), Reason::kWrongCompression, 0, 0);
}

TEST_F(ContainerTest, LinesSaidToBePlainAreNotReadOutOfCompressedFiles) {
  options_.compression = Compression::kNone;
  const std::string bytes = Deflated("a\nb\n", Wrapper::kGzip);
  for (const ContainerKind kind : {ContainerKind::kText, ContainerKind::kCsv}) {
    ExpectDamage(Kind(kind), bytes, Reason::kWrongCompression, 0, 0);
  }
}

// S-SOURCE-1.
TEST_F(ContainerTest, EveryContainerMayBeCompressedAndIsToldApartByItself) {
  const struct {
    ContainerOptions container;
    std::string bytes;
    Strings want;
  } cases[] = {
      {FixedLength(1, 2, 0),
       "x\x9c"
       "bcc",
       {"\x9c"
        "b",
        "cc"}},
      {Kind(ContainerKind::kText), "x \n8,\n", {"x ", "8,"}},
      {Kind(ContainerKind::kCsv), "x ,\"\n\"\n8,\n", {"x ,\"\n\"", "8,"}},
      {Kind(ContainerKind::kIdx), Idx(8, {2, 2}, "aabb"), {"aa", "bb"}},
  };
  for (const auto& [container, bytes, want] : cases) {
    options_.compression = Compression::kAuto;
    ExpectRead(container, bytes, want);  // though some of them could begin a zlib stream
    ExpectRead(container, Deflated(bytes, Wrapper::kGzip), want);
    options_.compression = Compression::kZlib;
    ExpectRead(container, Deflated(bytes, Wrapper::kZlib), want);
  }
}

// S-SOURCE-1.
TEST_F(ContainerTest, AnIndexIsNeverUsedForAnotherContainer) {
  const std::string bytes = "\"a\nb\"\nc\n";
  ContainerOptions header = Kind(ContainerKind::kCsv);
  header.has_header = true;
  keep_name_ = true;
  for (int again = 0; again < 2; ++again) {
    ExpectRead(Kind(ContainerKind::kText), bytes, {"\"a", "b\"", "c"});
    EXPECT_EQ(walked_, again == 0);
    ExpectRead(Kind(ContainerKind::kCsv), bytes, {"\"a\nb\"", "c"});
    EXPECT_EQ(walked_, again == 0);
    ExpectRead(header, bytes, {"c"});
    EXPECT_EQ(walked_, again == 0);
  }
}

// S-SOURCE-3.
TEST_F(ContainerTest, ALineThatIsNoneAnyMoreIsAnErrorAtTheRecord) {
  keep_name_ = true;
  ExpectRead(Kind(ContainerKind::kText), "abc\nde\n", {"abc", "de"});
  ExpectDamage(Kind(ContainerKind::kText), "a\nbcde\n", Reason::kUnknown, 0, 0);
}

}  // namespace
}  // namespace millrace::readers

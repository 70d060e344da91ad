#include "base/chrome_trace.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/temp_folder.h"

namespace millrace {
namespace {

TEST(ChromeTraceTest, EventsHaveTheFormsOfTheFormat) {
  ChromeEvents events;
  events.NameProcess(3, "rank 3");
  events.NameThread(3, 10, "consumer");
  events.Add(3, 10, "wait", 1'500, 4'000, "\"step\": 2");
  events.Add(3, 10, "batch", 4'000, 4'000, "");
  events.Count(3, "ready", 4'000, 2);
  EXPECT_EQ(events.text(),
            ",\n{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 3, \"args\": {\"name\": "
            "\"rank 3\"}}"
            ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 3, \"tid\": 10, \"args\": "
            "{\"name\": \"consumer\"}}"
            ",\n{\"name\": \"wait\", \"ph\": \"X\", \"pid\": 3, \"tid\": 10, \"ts\": 1.500, "
            "\"dur\": 2.500, \"args\": {\"step\": 2}}"
            ",\n{\"name\": \"batch\", \"ph\": \"i\", \"pid\": 3, \"tid\": 10, \"ts\": 4.000, "
            "\"s\": \"t\"}"
            ",\n{\"name\": \"ready\", \"ph\": \"C\", \"pid\": 3, \"ts\": 4.000, \"args\": "
            "{\"value\": 2}}");
}

TEST(ChromeTraceTest, AStringOfJsonIsEscaped) {
  EXPECT_EQ(JsonString("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(JsonString("\n\xff"), "\"<U+000A><0xFF>\"");
}

TEST(ChromeTraceTest, AFileHasTheEventsOfAllTexts) {
  const TempFolder folder;
  const std::string path = folder / "trace.json";
  const std::array<std::string, 2> texts = {",\n{\"a\": 1}", ",\n{\"b\": 2}"};
  ASSERT_TRUE(WriteChromeTrace(path, texts).ok());
  std::ifstream file(path);
  const std::string written(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(written,
            std::string(kChromeTraceBegin) + texts[0] + texts[1] + std::string(kChromeTraceEnd));
  EXPECT_EQ(WriteChromeTrace(folder / "missing/trace.json", texts).code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace millrace

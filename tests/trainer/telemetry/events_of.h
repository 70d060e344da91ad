#ifndef MILLRACE_TESTS_TRAINER_TELEMETRY_EVENTS_OF_H_
#define MILLRACE_TESTS_TRAINER_TELEMETRY_EVENTS_OF_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "readers/record_reader.h"
#include "trainer/telemetry/telemetry.pb.h"

namespace millrace::trainer {

// The event files of a folder, in the order in which TensorBoard reads them.
inline std::vector<std::string> EventFilesIn(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    files.push_back(file.path());
  }
  std::ranges::sort(files);
  return files;
}

// The events of a file, as our reader of TFRecord files gives them.
inline std::vector<events::Event> EventsOf(const std::string& path) {
  std::vector<events::Event> found;
  const auto reader = readers::OpenTfRecordReader(path);
  EXPECT_TRUE(reader.ok()) << reader.status();
  if (!reader.ok()) return found;
  while (true) {
    const auto record = (*reader)->Next();
    EXPECT_TRUE(record.ok()) << record.status();
    if (!record.ok() || !record->has_value()) return found;
    const std::string payload((*record)->payload);
    EXPECT_TRUE(found.emplace_back().ParseFromString(payload));
  }
}

}  // namespace millrace::trainer

#endif  // MILLRACE_TESTS_TRAINER_TELEMETRY_EVENTS_OF_H_

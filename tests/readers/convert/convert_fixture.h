#ifndef MILLRACE_TESTS_READERS_CONVERT_CONVERT_FIXTURE_H_
#define MILLRACE_TESTS_READERS_CONVERT_CONVERT_FIXTURE_H_

#include <gmock/gmock.h>
#include <signal.h>  // NOLINT: raise and SIGKILL are POSIX
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "readers/convert.h"
#include "readers/example_builder.h"
#include "readers/record_reader.h"
#include "readers/record_writer.h"
#include "tests/readers/example/example_oracle.h"
#include "tests/temp_files.h"

// Conversions between containers in a temporary folder.

namespace millrace::readers {

// The payloads of TFRecord shards, in order.
inline std::vector<std::string> ReadPayloads(const std::vector<std::string>& paths) {
  std::vector<std::string> payloads;
  for (const std::string& path : paths) {
    const auto reader = OpenTfRecordReader(path);
    EXPECT_TRUE(reader.ok()) << reader.status();
    while (true) {
      const auto record = (*reader)->Next();
      EXPECT_TRUE(record.ok()) << record.status();
      if (!record.ok() || !record->has_value()) break;
      payloads.emplace_back((*record)->payload);
    }
  }
  return payloads;
}

// Their Examples, read by libprotobuf.
inline std::vector<ExampleValues> ReadExamples(const std::vector<std::string>& paths) {
  std::vector<ExampleValues> examples;
  for (const std::string& payload : ReadPayloads(paths)) {
    const auto values = ParseWithProtobuf(payload);
    EXPECT_TRUE(values.has_value());
    examples.push_back(values.value_or(ExampleValues()));
  }
  return examples;
}

inline void WriteTfRecord(const std::string& path, const std::vector<std::string>& payloads) {
  const auto writer = TfRecordWriter::Open(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const std::string& payload : payloads) ASSERT_TRUE((*writer)->Write(payload).ok());
  ASSERT_TRUE((*writer)->Close().ok());
}

// Converts in a child that dies without a word before record `last` is counted.
inline void KillConversion(const ConvertOptions& options, int64_t last) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    (void)Convert(options, [last](int64_t done, int64_t) {
      if (done == last) ::raise(SIGKILL);
    });
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
}

class ConvertFixture : public testing::Test {
 protected:
  ConvertFixture() { std::filesystem::create_directory(folder_ / "out"); }

  // Of `files` to `prefix`; indexes are kept in the folder of the test.
  ConvertOptions Options(ConvertFormat from, std::vector<std::string> files, ConvertFormat to,
                         const std::string& prefix = "t") const {
    ConvertOptions options;
    options.from = from;
    options.to = to;
    options.files = std::move(files);
    options.output_prefix = folder_ / ("out/" + prefix);
    options.index_folder = folder_ / "indexes";
    return options;
  }
  std::string Path(const std::string& name) const { return folder_ / name; }
  std::string Write(const std::string& name, std::string_view bytes) const {
    WriteFile(Path(name), bytes);
    return Path(name);
  }

  // The shards that were written, none after an error.
  static std::vector<std::string> Run(const ConvertOptions& options) {
    const auto report = Convert(options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? report->files : std::vector<std::string>();
  }
  // The error, which has this code.
  static absl::Status Error(const ConvertOptions& options,
                            absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    const auto report = Convert(options);
    EXPECT_EQ(report.status().code(), code) << report.status();
    return report.status();
  }
  static std::vector<ConvertFeature> Schema(std::string_view text) {
    const auto schema = ParseConvertSchema(text);
    EXPECT_TRUE(schema.ok()) << schema.status();
    return *schema;
  }

  // Writes `examples` and returns the file.
  std::string Examples(const std::vector<ExampleBuilder>& examples) {
    std::vector<std::string> payloads;
    for (const ExampleBuilder& example : examples) payloads.push_back(example.Serialize());
    WriteTfRecord(Path("in.tfrecord"), payloads);
    return Path("in.tfrecord");
  }

  TempFolder folder_;
};

}  // namespace millrace::readers

#endif  // MILLRACE_TESTS_READERS_CONVERT_CONVERT_FIXTURE_H_

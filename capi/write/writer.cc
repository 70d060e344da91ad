#include <unistd.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/utf8.h"
#include "capi/call/guard.h"
#include "capi/call/sized.h"
#include "capi/write/output.h"
#include "readers/convert_words.h"
#include "readers/example_builder.h"
#include "readers/sharded_writer.h"

struct mr_writer {
  const pid_t process;
  const millrace::capi::Output output;  // goes behind the writer, which may leave its folder empty
  std::unique_ptr<millrace::readers::ShardedWriter> writer;
};

namespace millrace::capi {
namespace {

constexpr uint64_t kMaxExampleBytes = (uint64_t{1} << 31) - 1;  // protobuf's own limit

absl::StatusOr<readers::ShardedWriterOptions> OptionsOf(const mr_writer_options& taken) {
  readers::ShardedWriterOptions options;
  if (taken.compression != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(options.compression,
                              readers::ParseCompression("compression", taken.compression));
  }
  if (taken.compression_level != 0) options.compression_level = taken.compression_level;
  if (taken.shards != 0) options.num_shards = taken.shards;
  options.overwrite = taken.overwrite != 0;
  return options;
}

absl::Status CheckUsable(const char* call, const mr_writer* writer) {
  MILLRACE_RETURN_IF_ERROR(CheckGiven(call, {{"writer", writer != nullptr}}));
  if (writer->process == getpid()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(call, ": the writer was opened before this process was forked"));
}

absl::Status BadFeature(const mr_feature& feature, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("feature '", feature.name, "': ", ToAbsl(why)));
}

absl::Status CheckExampleBytes(uint64_t bytes) {
  if (bytes <= kMaxExampleBytes) return absl::OkStatus();
  return absl::InvalidArgumentError("the Example has 2 GiB or more, which protobuf cannot read");
}

// Returns the bytes that the values of a feature, which is valid, take at least.
uint64_t BytesOf(const mr_feature& feature) {
  constexpr uint64_t kTooMany = kMaxExampleBytes + 1;
  if (feature.num_values > kMaxExampleBytes) return kTooMany;
  if (feature.dtype == MR_INT64) return feature.num_values;
  if (feature.dtype == MR_FLOAT32) return feature.num_values * sizeof(float);
  uint64_t bytes = 0;
  for (size_t i = 0; i < feature.num_values && bytes < kTooMany; ++i) {
    bytes += std::min<uint64_t>(feature.sizes[i], kTooMany);
  }
  return bytes;
}

absl::Status CheckFeature(const mr_feature& feature) {
  if (feature.name == nullptr) return absl::InvalidArgumentError("a feature's name is NULL");
  if (!IsUtf8(feature.name)) return BadFeature(feature, "its name is not UTF-8");
  const bool is_bytes = feature.dtype == MR_BYTES;
  if (!is_bytes && feature.dtype != MR_INT64 && feature.dtype != MR_FLOAT32) {
    return BadFeature(
        feature, absl::StrCat("dtype ", feature.dtype, " is not MR_BYTES, MR_INT64 or MR_FLOAT32"));
  }
  if (feature.num_values == 0) return absl::OkStatus();
  if (feature.values == nullptr) return BadFeature(feature, "values is NULL");
  if (!is_bytes) return absl::OkStatus();
  if (feature.sizes == nullptr) return BadFeature(feature, "sizes is NULL");
  const auto* const values = static_cast<const void* const*>(feature.values);
  for (size_t i = 0; i < feature.num_values; ++i) {
    if (values[i] == nullptr && feature.sizes[i] != 0) {
      return BadFeature(feature, absl::StrCat("value ", i, " is NULL"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFeatures(std::span<const mr_feature> features) {
  std::vector<std::string_view> names;
  uint64_t bytes = 0;
  for (const mr_feature& feature : features) {
    MILLRACE_RETURN_IF_ERROR(CheckFeature(feature));
    names.push_back(feature.name);
    bytes += BytesOf(feature) + names.back().size();
    MILLRACE_RETURN_IF_ERROR(CheckExampleBytes(bytes));
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("feature '", ToAbsl(*twice), "': is there twice"));
}

void Add(const mr_feature& feature, readers::ExampleBuilder& example) {
  const size_t count = feature.num_values;
  if (feature.dtype == MR_INT64) {
    return example.AddInts(feature.name, {static_cast<const int64_t*>(feature.values), count});
  }
  if (feature.dtype == MR_FLOAT32) {
    return example.AddFloats(feature.name, {static_cast<const float*>(feature.values), count});
  }
  const auto* const values = static_cast<const char* const*>(feature.values);
  std::vector<std::string_view> views;
  views.reserve(count);
  for (size_t i = 0; i < count; ++i) views.emplace_back(values[i], feature.sizes[i]);
  example.AddBytes(feature.name, views);
}

}  // namespace
}  // namespace millrace::capi

namespace capi = millrace::capi;
namespace readers = millrace::readers;

mr_error* mr_writer_open(const mr_writer_options* options, mr_writer** writer) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_writer_open", {{"options", options != nullptr}, {"writer", writer != nullptr}}));
    mr_writer_options taken;
    MILLRACE_RETURN_IF_ERROR(capi::Take(options, "mr_writer_options", taken));
    MILLRACE_ASSIGN_OR_RETURN(readers::ShardedWriterOptions made, capi::OptionsOf(taken));
    MILLRACE_ASSIGN_OR_RETURN(capi::Output output,
                              capi::MakeOutput("mr_writer_options", taken.prefix));
    made.output_prefix = output.prefix;
    MILLRACE_ASSIGN_OR_RETURN(auto opened, readers::ShardedWriter::Open(made));
    *writer = new mr_writer{getpid(), std::move(output), std::move(opened)};
    return absl::OkStatus();
  });
}

mr_error* mr_writer_write(mr_writer* writer, const void* record, size_t size) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckUsable("mr_writer_write", writer));
    MILLRACE_RETURN_IF_ERROR(
        capi::CheckGiven("mr_writer_write", {{"record", record != nullptr || size == 0}}));
    return writer->writer->Write({static_cast<const char*>(record), size});
  });
}

mr_error* mr_writer_write_example(mr_writer* writer, const mr_feature* features,
                                  size_t num_features) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckUsable("mr_writer_write_example", writer));
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_writer_write_example", {{"features", features != nullptr || num_features == 0}}));
    MILLRACE_RETURN_IF_ERROR(capi::CheckFeatures({features, num_features}));
    readers::ExampleBuilder example;
    for (size_t i = 0; i < num_features; ++i) capi::Add(features[i], example);
    const std::string bytes = example.Serialize();
    MILLRACE_RETURN_IF_ERROR(capi::CheckExampleBytes(bytes.size()));
    return writer->writer->Write(bytes);
  });
}

mr_error* mr_writer_close(mr_writer* writer, mr_progress progress, void* user) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckUsable("mr_writer_close", writer));
    if (progress == nullptr) return writer->writer->Close();
    return writer->writer->Close(
        [&](int64_t done, int64_t total) { return progress(user, done, total) != 0; });
  });
}

void mr_writer_free(mr_writer* writer) {
  // The files are the parent's, which goes on writing.
  if (writer != nullptr && writer->process == getpid()) delete writer;
}

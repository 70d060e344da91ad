#include "tests/augment/fixtures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/augment/image_testing.h"

namespace millrace::augment::testing {
namespace {

std::string ReadTestData(const std::string& name) {
  const char* const root = std::getenv("MILLRACE_SOURCE_DIR");
  EXPECT_NE(root, nullptr);
  if (root == nullptr) return "";
  std::ifstream in(std::string(root) + "/tests/augment/testdata/" + name, std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

// The images of STEM.bin, as STEM.txt tells them.
void ReadFixtures(const std::string& stem, std::map<std::string, Value>* fixtures) {
  const std::string blob = ReadTestData(stem + ".bin");
  std::istringstream lines(ReadTestData(stem + ".txt"));
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string name, dtype;
    int64_t height = 0, width = 0, channels = 0;
    size_t offset = 0;
    words >> name >> dtype >> height >> width >> channels >> offset;
    Value& value = (*fixtures)[name];
    value.dtype = dtype == "uint8" ? DType::kU8 : DType::kF32;
    value.shape = Shape{height, width, channels};
    const size_t size = static_cast<size_t>(value.shape.num_elements()) * SizeOf(value.dtype);
    const auto bytes = std::as_bytes(std::span(blob)).subspan(offset, size);
    value.bytes.assign(bytes.begin(), bytes.end());
  }
}

std::map<std::string, Value> ReadAllFixtures() {
  std::map<std::string, Value> fixtures;
  for (const char* stem : {"images", "torchvision"}) ReadFixtures(stem, &fixtures);
  return fixtures;
}

double At(const Value& value, size_t i) {
  return value.dtype == DType::kU8 ? value.as<uint8_t>()[i] : value.as<float>()[i];
}

}  // namespace

const Value& Fixture(const std::string& name) {
  static const auto* const fixtures = new std::map<std::string, Value>(ReadAllFixtures());
  static const Value none;
  const auto found = fixtures->find(name);
  EXPECT_NE(found, fixtures->end()) << name;
  return found == fixtures->end() ? none : found->second;
}

Value ApplyTo(const absl::StatusOr<std::unique_ptr<Op>>& op, const Value& in, uint64_t record) {
  EXPECT_TRUE(op.ok()) << op.status();
  if (!op.ok()) return {};
  TestRun run(1, 1, record);
  run.AddValue("image", in.dtype, in.shape, in.bytes.data());
  const Schema out = ResolveAndApply(**op, Schema({{"image", in.dtype, in.shape}}), *run);
  EXPECT_TRUE(run->ok(0)) << run->status(0);
  if (!run->ok(0)) return {};
  const ConstTensorView value = run->Get("image").at(0);
  EXPECT_EQ(out.Find("image")->dtype, value.dtype);
  for (int i = 0; i < value.shape.rank(); ++i) {
    const int64_t extent = out.Find("image")->shape[i];
    EXPECT_TRUE(extent == Shape::kUnknown || extent == value.shape[i]) << out.ToString();
  }
  const auto* const bytes = static_cast<const std::byte*>(value.data);
  return {value.dtype, value.shape, {bytes, bytes + value.size_bytes()}};
}

absl::Status RowStatus(const absl::StatusOr<std::unique_ptr<Op>>& op, const Value& in) {
  EXPECT_TRUE(op.ok()) << op.status();
  if (!op.ok()) return op.status();
  TestRun run(1);
  run.AddValue("image", in.dtype, in.shape, in.bytes.data());
  ResolveAndApply(**op, Schema({{"image", in.dtype, in.shape}}), *run);
  return run->status(0);
}

Value CropOf(const Value& image, int64_t top, int64_t left, int64_t height, int64_t width) {
  const auto pixel_bytes = static_cast<int64_t>(SizeOf(image.dtype)) * image.shape[2];
  Value crop{image.dtype, Shape{height, width, image.shape[2]}, {}};
  for (int64_t y = top; y < top + height; ++y) {
    const auto row = image.bytes.begin() + (y * image.shape[1] + left) * pixel_bytes;
    crop.bytes.insert(crop.bytes.end(), row, row + width * pixel_bytes);
  }
  return crop;
}

double LargestDifference(const Value& a, const Value& b) {
  EXPECT_EQ(a.shape, b.shape);
  if (a.shape != b.shape) return HUGE_VAL;
  double largest = 0;
  for (size_t i = 0; i < static_cast<size_t>(a.shape.num_elements()); ++i) {
    largest = std::max(largest, std::abs(At(a, i) - At(b, i)));
  }
  return largest;
}

}  // namespace millrace::augment::testing

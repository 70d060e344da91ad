#ifndef MILLRACE_TESTS_AUGMENT_CHAIN_TESTING_H_
#define MILLRACE_TESTS_AUGMENT_CHAIN_TESTING_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "augment/decode_crop.h"
#include "augment/fused_ops.h"
#include "tests/augment/image_testing.h"

// The ops that a training plan has between an encoded image and a row of its batch, as one fused op
// over runs of several images, and apart, an image at a time.

namespace millrace::augment::testing {

// decode_image, random_resized_crop, flip, normalize and transpose.
inline FusedImageOptions TrainingChain(const DecodeImageOptions& decode,
                                       const RandomResizedCropOptions& crop) {
  const auto channels = static_cast<size_t>(decode.channels);
  return {.decode = decode,
          .first_stage = "random_resized_crop",
          .first = crop,
          .steps = {{"flip", FlipOptions{}},
                    {"normalize", NormalizeOptions{.mean = std::vector<float>(channels, 120),
                                                   .stddev = std::vector<float>(channels, 60)}},
                    {"transpose", TransposeOptions{}}}};
}

// What became of a row: its error, or the shapes and bytes of its image and boxes.
struct RowResult {
  absl::Status status;
  std::string value;
  friend bool operator==(const RowResult&, const RowResult&) = default;
};

using Ops = std::vector<std::unique_ptr<Op>>;

// `files`, each in memory of exactly its size and with a box, through `ops` in one run; row i is of
// record `first_record` + i.
inline std::vector<RowResult> RunOps(const Ops& ops, const std::vector<std::string_view>& files,
                                     uint64_t first_record) {
  TestRun run(static_cast<int64_t>(files.size()), 1, first_record);
  std::vector<std::unique_ptr<char[]>> exact;
  Column& column = run->Add("image/encoded", DType::kBytes);
  for (size_t row = 0; row < files.size(); ++row) {
    exact.emplace_back(new char[files[row].size()]);
    std::copy(files[row].begin(), files[row].end(), exact[row].get());
    column.Set(static_cast<int64_t>(row), exact[row].get(),
               Shape{static_cast<int64_t>(files[row].size())});
  }
  const float box[] = {3, 2, 60, 50};
  run.AddValue("boxes", DType::kF32, {1, 4}, box);
  Schema schema = EncodedSchema();
  schema.Set({"boxes", DType::kF32, {Shape::kUnknown, 4}});
  for (const auto& op : ops) schema = ResolveAndApply(*op, schema, *run);
  std::vector<RowResult> results(files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    results[i].status = run->status(row);
    if (!run->ok(row)) continue;
    for (const char* name : {"image", "boxes"}) {
      const ConstTensorView value = run->Get(name).at(row);
      results[i].value += value.shape.ToString() +
                          std::string(static_cast<const char*>(value.data), value.size_bytes());
    }
  }
  return results;
}

inline void AddOp(absl::StatusOr<std::unique_ptr<Op>> op, Ops& ops) {
  ASSERT_TRUE(op.ok()) << op.status();
  ops.push_back(*std::move(op));
}

// TrainingChain as one op.
inline Ops FusedChain(const DecodeImageOptions& decode, const RandomResizedCropOptions& crop) {
  Ops ops;
  AddOp(MakeFusedImage(TrainingChain(decode, crop)), ops);
  return ops;
}

// The same, op by op; decode_image and the crop are one op or, with `apart`, two.
inline Ops SeparateChain(const DecodeImageOptions& decode, const RandomResizedCropOptions& crop,
                         bool apart) {
  const FusedImageOptions chain = TrainingChain(decode, crop);
  Ops ops;
  if (apart) {
    AddOp(MakeDecodeImageToCrop(decode, crop, chain.first_stage), ops);
    AddOp(MakeRandomResizedCrop(crop, chain.first_stage), ops);
  } else {
    AddOp(MakeDecodeCrop(decode, crop, chain.first_stage), ops);
  }
  const auto& [flip, normalize, transpose] =
      std::tie(chain.steps[0], chain.steps[1], chain.steps[2]);
  AddOp(MakeFlip(std::get<FlipOptions>(flip.options), flip.stage), ops);
  AddOp(MakeNormalize(std::get<NormalizeOptions>(normalize.options)), ops);
  AddOp(MakeTranspose(std::get<TransposeOptions>(transpose.options)), ops);
  return ops;
}

// `files` through the fused op, `rows` at a time: each row has the bits or the error that it has
// alone and op by op. Returns how many rows are ok.
inline int ExpectRunsAreRowsAlone(const std::vector<std::string_view>& files, size_t rows,
                                  const DecodeImageOptions& decode,
                                  const RandomResizedCropOptions& crop) {
  const Ops fused = FusedChain(decode, crop), pair = SeparateChain(decode, crop, false);
  const Ops two = decode.dct_downscale ? Ops() : SeparateChain(decode, crop, true);
  int ok = 0;
  for (size_t first = 0; first < files.size(); first += rows) {
    const size_t end = std::min(first + rows, files.size());
    const std::vector<std::string_view> group(&files[first], &files[first] + (end - first));
    const std::vector<RowResult> together = RunOps(fused, group, first);
    for (size_t row = 0; row < group.size(); ++row) {
      const size_t record = first + row;
      const RowResult alone = RunOps(pair, {group[row]}, record)[0];
      EXPECT_EQ(together[row].status, alone.status) << "record " << record;
      EXPECT_TRUE(together[row].value == alone.value) << "record " << record;
      if (!two.empty()) {
        EXPECT_TRUE((RunOps(two, {group[row]}, record)[0] == alone)) << "record " << record;
      }
      if (alone.status.ok()) ++ok;
    }
    if (::testing::Test::HasFailure()) break;
  }
  return ok;
}

}  // namespace millrace::augment::testing

#endif  // MILLRACE_TESTS_AUGMENT_CHAIN_TESTING_H_

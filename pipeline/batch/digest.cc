#include "pipeline/digest.h"

#include <xxhash.h>

#include <memory>
#include <vector>

#include "pipeline/batch/data.h"
#include "pipeline/batch/row_store.h"

namespace millrace::pipeline {
namespace {

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

// Name, dtype and shape of a row's value, as one word.
uint64_t HashHeader(const std::string& name, DType dtype, const Shape& shape) {
  std::vector<int64_t> words = {static_cast<int64_t>(dtype), shape.rank()};
  for (const int64_t extent : shape.extents()) words.push_back(extent);
  const uint64_t seed = XXH3_64bits(name.data(), name.size());
  return XXH3_64bits_withSeed(words.data(), words.size() * sizeof(int64_t), seed);
}

// Adds the rows of one tensor, each as its own value is: how far a row is padded depends on the
// other rows of the slice, so on the world.
class FieldRows {
 public:
  FieldRows(const BatchData& data, size_t tensor)
      : layout_(*data.layout),
        tensor_(tensor),
        first_(data.tensor(tensor)),
        header_(Header(layout_.fields[tensor].shape)) {}

  void Add(XXH3_state_t* state, int64_t row) const {
    const RowStore store = layout_.store(tensor_);
    if (store == RowStore::kDense) {
      XXH3_64bits_update(state, &header_, sizeof(header_));
      XXH3_64bits_update(state, RowAt(row), layout_.row_bytes[tensor_]);
      return;
    }
    const Shape& own = layout_.own[tensor_][static_cast<size_t>(row)];
    const uint64_t header = Header(own);
    XXH3_64bits_update(state, &header, sizeof(header));
    if (store == RowStore::kRagged) {
      XXH3_64bits_update(state, RowAt(layout_.splits[tensor_][static_cast<size_t>(row)]),
                         static_cast<size_t>(own[0]) * layout_.row_bytes[tensor_]);
    } else {
      VisitPadded(own, layout_.fields[tensor_], [&](size_t, size_t at, size_t bytes) {
        XXH3_64bits_update(state, RowAt(row) + at, bytes);
      });
    }
  }

 private:
  uint64_t Header(const Shape& shape) const {
    return HashHeader(layout_.names[tensor_], layout_.fields[tensor_].dtype, shape);
  }
  const std::byte* RowAt(int64_t row) const {
    return first_ + static_cast<size_t>(row) * layout_.row_bytes[tensor_];
  }

  const BatchLayout& layout_;
  const size_t tensor_;
  const std::byte* const first_;
  const uint64_t header_;
};

std::vector<FieldRows> RowsOf(const BatchData& data) {
  std::vector<FieldRows> fields;
  for (size_t i = 0; i < data.layout->names.size(); ++i) {
    if (data.layout->store(i) != RowStore::kSplits) fields.emplace_back(data, i);
  }
  return fields;
}

}  // namespace

void StreamDigest::Add(const Batch& batch) {
  const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  const std::vector<FieldRows> fields = RowsOf(DataOf(batch));
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    if (batch.valid()[row] == 0) continue;
    const SampleId& id = batch.ids()[row];
    const uint64_t words[] = {batch.index(), static_cast<uint64_t>(batch.first_global_row() + row),
                              id.epoch, id.record, id.sub_index};
    XXH3_64bits_reset(state.get());
    XXH3_64bits_update(state.get(), words, sizeof(words));
    for (const FieldRows& field : fields) field.Add(state.get(), row);
    sum_ += XXH3_64bits_digest(state.get());
  }
}

}  // namespace millrace::pipeline

#include "pipeline/digest.h"

#include <xxhash.h>

#include <memory>
#include <vector>

namespace millrace::pipeline {
namespace {

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

// What does not change from row to row: name, dtype and shape, as one word.
uint64_t HashHeader(const std::string& name, const ConstTensorView& tensor) {
  std::vector<int64_t> words = {static_cast<int64_t>(tensor.dtype), tensor.shape.rank() - 1};
  for (int i = 1; i < tensor.shape.rank(); ++i) words.push_back(tensor.shape[i]);
  const uint64_t seed = XXH3_64bits(name.data(), name.size());
  return XXH3_64bits_withSeed(words.data(), words.size() * sizeof(int64_t), seed);
}

struct RowBytes {
  uint64_t header;
  const std::byte* first;
  size_t size;
};

std::vector<RowBytes> RowsOf(const Batch& batch) {
  std::vector<RowBytes> rows;
  for (size_t i = 0; i < batch.names().size(); ++i) {
    const ConstTensorView tensor = batch.tensor(i);
    rows.push_back({HashHeader(batch.names()[i], tensor),
                    static_cast<const std::byte*>(tensor.data),
                    tensor.size_bytes() / static_cast<size_t>(batch.num_rows())});
  }
  return rows;
}

}  // namespace

void StreamDigest::Add(const Batch& batch) {
  const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  const std::vector<RowBytes> fields = RowsOf(batch);
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    if (batch.valid()[row] == 0) continue;
    const SampleId& id = batch.ids()[row];
    const uint64_t words[] = {batch.index(), static_cast<uint64_t>(batch.first_global_row() + row),
                              id.epoch, id.record, id.sub_index};
    XXH3_64bits_reset(state.get());
    XXH3_64bits_update(state.get(), words, sizeof(words));
    for (const RowBytes& field : fields) {
      XXH3_64bits_update(state.get(), &field.header, sizeof(field.header));
      XXH3_64bits_update(state.get(), field.first + static_cast<size_t>(row) * field.size,
                         field.size);
    }
    sum_ += XXH3_64bits_digest(state.get());
  }
}

}  // namespace millrace::pipeline

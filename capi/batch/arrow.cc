#include "capi/arrow.h"

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "capi/batch/batch.h"
#include "capi/call/guard.h"

// A batch as a record batch of Arrow: a struct of columns, whose buffers are the batch's own. Only
// the bits that say which rows are valid are made anew, since a batch has bytes for them.
//
// Arrow's trees are released from the root, but a reader may take a child out before and release it
// later. So each node owns what it points at, and holds the batch for itself.

namespace millrace::capi {
namespace {

// A field of a batch, without a row's padding.
struct Column {
  std::string name;
  const char* format = nullptr;     // of its elements
  const void* data = nullptr;       // the elements
  const int64_t* splits = nullptr;  // of a ragged field: where each row begins, and the end
  int64_t num_values = 0;           // rows; of a ragged field, elements of the rows' first extents
  std::vector<int64_t> extents;     // the extents of a value
};

struct Columns {
  std::vector<Column> columns;
  int64_t num_rows = 0;
  int64_t num_nulls = 0;
  std::shared_ptr<const std::vector<uint8_t>> valid;  // a bit per row; null: all are valid
};

//   UNIMPLEMENTED  Arrow has no such type
absl::StatusOr<const char*> FormatOf(const std::string& name, DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return "C";
    case DType::kI32:
      return "i";
    case DType::kI64:
      return "l";
    case DType::kF16:
      return "e";
    case DType::kF32:
      return "f";
    case DType::kF64:
      return "g";
    case DType::kBF16:
    case DType::kBytes:
      break;
  }
  return absl::UnimplementedError(
      absl::StrCat(name, " is ", ToAbsl(Name(dtype)), ", which Arrow does not have"));
}

// True if tensor i + 1 says where the rows of tensor i begin.
bool IsRagged(const pipeline::Batch& batch, size_t i) {
  if (i + 1 >= batch.names().size()) return false;
  if (batch.names()[i + 1] != absl::StrCat(batch.names()[i], "/row_splits")) return false;
  const ConstTensorView splits = batch.tensor(i + 1);
  return splits.dtype == DType::kI64 && splits.shape.rank() == 1 &&
         splits.shape[0] == batch.num_rows() + 1;
}

std::shared_ptr<const std::vector<uint8_t>> BitsOf(const pipeline::Batch& batch) {
  if (batch.num_valid_rows() == batch.num_rows()) return nullptr;
  const auto valid = batch.valid();
  std::vector<uint8_t> bits((valid.size() + 7) / 8);
  for (size_t row = 0; row < valid.size(); ++row) {
    if (valid[row] != 0) bits[row / 8] |= static_cast<uint8_t>(1 << row % 8);
  }
  return std::make_shared<const std::vector<uint8_t>>(std::move(bits));
}

absl::StatusOr<Columns> ColumnsOf(const pipeline::Batch& batch) {
  Columns columns;
  columns.num_rows = batch.num_rows();
  columns.num_nulls = batch.num_rows() - batch.num_valid_rows();
  columns.valid = BitsOf(batch);
  for (size_t i = 0; i < batch.names().size(); ++i) {
    const ConstTensorView tensor = batch.tensor(i);
    Column column;
    column.name = batch.names()[i];
    MILLRACE_ASSIGN_OR_RETURN(column.format, FormatOf(column.name, tensor.dtype));
    column.data = tensor.data;
    column.num_values = tensor.shape[0];
    const auto extents = tensor.shape.extents().subspan(1);
    column.extents.assign(extents.begin(), extents.end());
    if (IsRagged(batch, i)) {
      column.splits = static_cast<const int64_t*>(batch.tensor(++i).data);
    }
    columns.columns.push_back(std::move(column));
  }
  return columns;
}

// A node of a tree, which owns its children and what its struct points at.
struct SchemaNode {
  SchemaNode(std::string format_in, std::string name_in, size_t num_children)
      : format(std::move(format_in)), name(std::move(name_in)), children(num_children) {
    for (ArrowSchema& child : children) pointers.push_back(&child);
  }
  ~SchemaNode() {
    for (ArrowSchema& child : children) {
      if (child.release != nullptr) child.release(&child);
    }
  }
  SchemaNode(const SchemaNode&) = delete;
  SchemaNode& operator=(const SchemaNode&) = delete;

  const std::string format;
  const std::string name;
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema*> pointers;
};

void ReleaseSchema(ArrowSchema* schema) {
  delete static_cast<SchemaNode*>(schema->private_data);
  schema->release = nullptr;
}

void Show(std::unique_ptr<SchemaNode> node, int64_t flags, ArrowSchema& schema) {
  schema = {.format = node->format.c_str(),
            .name = node->name.c_str(),
            .metadata = nullptr,
            .flags = flags,
            .n_children = static_cast<int64_t>(node->children.size()),
            .children = node->pointers.data(),
            .dictionary = nullptr,
            .release = ReleaseSchema,
            .private_data = node.get()};
  static_cast<void>(node.release());
}

struct ArrayNode {
  ArrayNode(mr_batch* batch_in, size_t num_children) : children(num_children) {
    for (ArrowArray& child : children) pointers.push_back(&child);
    batch = mr_batch_retain(batch_in);  // last: nothing would release it for an exception
  }
  ~ArrayNode() {
    for (ArrowArray& child : children) {
      if (child.release != nullptr) child.release(&child);
    }
    mr_batch_release(batch);
  }
  ArrayNode(const ArrayNode&) = delete;
  ArrayNode& operator=(const ArrayNode&) = delete;

  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> pointers;
  std::shared_ptr<const std::vector<uint8_t>> valid;
  std::array<const void*, 2> buffers = {};
  mr_batch* batch = nullptr;
};

void ReleaseArray(ArrowArray* array) {
  delete static_cast<ArrayNode*>(array->private_data);
  array->release = nullptr;
}

void Show(std::unique_ptr<ArrayNode> node, int64_t length, int64_t num_buffers, ArrowArray& array) {
  array = {.length = length,
           .null_count = 0,
           .offset = 0,
           .n_buffers = num_buffers,
           .n_children = static_cast<int64_t>(node->children.size()),
           .buffers = node->buffers.data(),
           .children = node->pointers.data(),
           .dictionary = nullptr,
           .release = ReleaseArray,
           .private_data = node.get()};
  static_cast<void>(node.release());
}

// The values of a column from extent `depth` on: a list of fixed size per extent, then elements.
void ShowValues(const Column& column, const std::string& name, size_t depth, int64_t flags,
                ArrowSchema& schema) {
  const bool is_list = depth < column.extents.size();
  auto node = std::make_unique<SchemaNode>(
      is_list ? absl::StrCat("+w:", column.extents[depth]) : column.format, name, is_list ? 1 : 0);
  if (is_list) ShowValues(column, "item", depth + 1, 0, node->children[0]);
  Show(std::move(node), flags, schema);
}

void ShowColumn(const Column& column, ArrowSchema& schema) {
  if (column.splits == nullptr) {
    return ShowValues(column, column.name, 0, kArrowNullable, schema);
  }
  auto node = std::make_unique<SchemaNode>("+L", column.name, 1);
  ShowValues(column, "item", 0, 0, node->children[0]);
  Show(std::move(node), kArrowNullable, schema);
}

void ShowValues(const Column& column, mr_batch* batch, size_t depth, int64_t length,
                ArrowArray& array) {
  const bool is_list = depth < column.extents.size();
  auto node = std::make_unique<ArrayNode>(batch, is_list ? 1 : 0);
  if (is_list) {
    ShowValues(column, batch, depth + 1, length * column.extents[depth], node->children[0]);
  } else {
    node->buffers[1] = column.data;
  }
  Show(std::move(node), length, is_list ? 1 : 2, array);
}

void ShowColumn(const Column& column, const Columns& columns, mr_batch* batch, ArrowArray& array) {
  if (column.splits == nullptr) {
    ShowValues(column, batch, 0, columns.num_rows, array);
  } else {
    auto node = std::make_unique<ArrayNode>(batch, 1);
    ShowValues(column, batch, 0, column.num_values, node->children[0]);
    node->buffers[1] = column.splits;
    Show(std::move(node), columns.num_rows, 2, array);
  }
  if (columns.valid == nullptr) return;
  auto* const node = static_cast<ArrayNode*>(array.private_data);
  node->valid = columns.valid;
  node->buffers[0] = columns.valid->data();
  array.null_count = columns.num_nulls;
}

}  // namespace
}  // namespace millrace::capi

namespace capi = millrace::capi;

mr_error* mr_batch_arrow(const mr_batch* batch, ArrowArray* array, ArrowSchema* schema) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_batch_arrow",
        {{"batch", batch != nullptr}, {"array", array != nullptr}, {"schema", schema != nullptr}}));
    MILLRACE_ASSIGN_OR_RETURN(const capi::Columns columns, capi::ColumnsOf(batch->batch));
    auto* const held = const_cast<mr_batch*>(batch);  // its count alone is changed
    const size_t num_columns = columns.columns.size();
    auto schema_node = std::make_unique<capi::SchemaNode>("+s", "", num_columns);
    auto array_node = std::make_unique<capi::ArrayNode>(held, num_columns);
    for (size_t i = 0; i < num_columns; ++i) {
      capi::ShowColumn(columns.columns[i], schema_node->children[i]);
      capi::ShowColumn(columns.columns[i], columns, held, array_node->children[i]);
    }
    capi::Show(std::move(schema_node), 0, *schema);
    capi::Show(std::move(array_node), columns.num_rows, 1, *array);
    return absl::OkStatus();
  });
}

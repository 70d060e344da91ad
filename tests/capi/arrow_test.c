// Batches as record batches of Arrow's C data interface. The structs are those of its
// specification.
#include <unistd.h>

#include "expect.h"
#include "streams.h"

struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};

static void expect_schema(const struct ArrowSchema* schema, const char* format, const char* name,
                          int64_t flags, int64_t num_children) {
  EXPECT(strcmp(schema->format, format) == 0);
  EXPECT(strcmp(schema->name, name) == 0);
  EXPECT(schema->metadata == NULL && schema->dictionary == NULL);
  EXPECT_EQ(schema->flags, flags);
  EXPECT_EQ(schema->n_children, num_children);
}

static void expect_array(const struct ArrowArray* array, int64_t length, int64_t null_count,
                         int64_t num_buffers, int64_t num_children) {
  EXPECT_EQ(array->length, length);
  EXPECT_EQ(array->null_count, null_count);
  EXPECT_EQ(array->offset, 0);
  EXPECT_EQ(array->n_buffers, num_buffers);
  EXPECT_EQ(array->n_children, num_children);
  EXPECT(array->dictionary == NULL);
  if (null_count == 0) EXPECT(array->buffers[0] == NULL);
}

static void numbers_are_a_column_whose_padding_is_null(void) {
  mr_loader* loader = open_stream(NUMBERS, NULL, NULL);
  EXPECT_OK(mr_loader_seek(loader, 2));
  mr_batch* batch = next_batch(loader);
  mr_tensor tensor = {sizeof tensor};
  EXPECT_OK(mr_batch_tensor(batch, 0, &tensor));
  struct ArrowArray array;
  struct ArrowSchema schema;
  EXPECT_OK(mr_batch_arrow(batch, &array, &schema));
  mr_batch_release(batch);
  mr_loader_free(loader);

  expect_schema(&schema, "+s", "", 0, 1);
  expect_schema(schema.children[0], "l", "value", 2, 0);
  expect_array(&array, 8, 0, 1, 1);
  expect_array(array.children[0], 8, 4, 2, 0);
  EXPECT_EQ(*(const uint8_t*)array.children[0]->buffers[0], 0x0f);
  EXPECT(array.children[0]->buffers[1] == tensor.data);
  EXPECT_EQ(((const int64_t*)array.children[0]->buffers[1])[3], 19);
  schema.release(&schema);
  array.release(&array);
  EXPECT(schema.release == NULL && array.release == NULL);
}

// A reader may take a child out, and keep it when the rest is released.
static void a_child_that_was_taken_out_lives_on(void) {
  mr_loader* loader = open_stream(NUMBERS, NULL, NULL);
  mr_batch* batch = next_batch(loader);
  struct ArrowArray array;
  struct ArrowSchema schema;
  EXPECT_OK(mr_batch_arrow(batch, &array, &schema));
  mr_batch_release(batch);
  mr_loader_free(loader);
  struct ArrowArray child = *array.children[0];
  struct ArrowSchema type = *schema.children[0];
  array.children[0]->release = NULL;
  schema.children[0]->release = NULL;
  array.release(&array);
  schema.release(&schema);
  expect_schema(&type, "l", "value", 2, 0);
  expect_array(&child, 8, 0, 2, 0);
  EXPECT_EQ(((const int64_t*)child.buffers[1])[7], 7);
  type.release(&type);
  child.release(&child);
}

static mr_batch* first_batch(const char* text, const path* file) {
  mr_loader* loader = open_file(text, file);
  mr_batch* batch = next_batch(loader);
  mr_loader_free(loader);
  return batch;
}

static void extents_are_lists_of_fixed_size(void) {
  const path file = make_file("0123456789ab", 12);
  mr_batch* batch = first_batch(
      "stage { fixed_length { files: \"${FILE}\" record_bytes: 6 compression: \"none\" } } "
      "stage { decode_raw { output: \"a\" dtype: UINT8 shape: [3, 2] } } "
      "stage { batch { size: 2 } }",
      &file);
  struct ArrowArray array;
  struct ArrowSchema schema;
  EXPECT_OK(mr_batch_arrow(batch, &array, &schema));
  mr_batch_release(batch);
  const struct ArrowSchema* type = schema.children[0];
  expect_schema(type, "+w:3", "a", 2, 1);
  expect_schema(type->children[0], "+w:2", "item", 0, 1);
  expect_schema(type->children[0]->children[0], "C", "item", 0, 0);
  const struct ArrowArray* column = array.children[0];
  expect_array(column, 2, 0, 1, 1);
  expect_array(column->children[0], 6, 0, 1, 1);
  expect_array(column->children[0]->children[0], 12, 0, 2, 0);
  EXPECT(memcmp(column->children[0]->children[0]->buffers[1], "0123456789ab", 12) == 0);
  array.release(&array);
  schema.release(&schema);
  unlink(file.name);
}

static void ragged_fields_are_large_lists(void) {
  const char lines[] = "one\nthree\n\nx\n";
  const path file = make_file(lines, sizeof lines - 1);
  mr_batch* batch = first_batch(
      "stage { text { files: \"${FILE}\" compression: \"none\" } } "
      "stage { ragged_batch { size: 4 } }",
      &file);
  struct ArrowArray array;
  struct ArrowSchema schema;
  EXPECT_OK(mr_batch_arrow(batch, &array, &schema));
  mr_batch_release(batch);
  expect_schema(&schema, "+s", "", 0, 1);
  expect_schema(schema.children[0], "+L", "record", 2, 1);
  expect_schema(schema.children[0]->children[0], "C", "item", 0, 0);
  const struct ArrowArray* column = array.children[0];
  expect_array(column, 4, 0, 2, 1);
  const int64_t splits[] = {0, 3, 8, 8, 9};
  EXPECT(memcmp(column->buffers[1], splits, sizeof splits) == 0);
  expect_array(column->children[0], 9, 0, 2, 0);
  EXPECT(memcmp(column->children[0]->buffers[1], "onethreex", 9) == 0);
  array.release(&array);
  schema.release(&schema);
  unlink(file.name);
}

static void bfloat16_is_not_there(void) {
  const path file = make_file("01", 2);
  mr_batch* batch = first_batch(
      "stage { fixed_length { files: \"${FILE}\" record_bytes: 1 compression: \"none\" } } "
      "stage { decode_raw { output: \"a\" dtype: UINT8 shape: [1] } } "
      "stage { cast { field: \"a\" dtype: BFLOAT16 } } stage { batch { size: 2 } }",
      &file);
  struct ArrowArray array = {0};
  struct ArrowSchema schema = {0};
  EXPECT_ERROR(mr_batch_arrow(batch, &array, &schema), MR_UNIMPLEMENTED, "a is bfloat16");
  EXPECT(array.release == NULL && schema.release == NULL);
  mr_batch_release(batch);
  unlink(file.name);
}

static const test_case cases[] = {
    {"NumbersAreAColumnWhosePaddingIsNull", numbers_are_a_column_whose_padding_is_null},
    {"AChildThatWasTakenOutLivesOn", a_child_that_was_taken_out_lives_on},
    {"ExtentsAreListsOfFixedSize", extents_are_lists_of_fixed_size},
    {"RaggedFieldsAreLargeLists", ragged_fields_are_large_lists},
    {"Bfloat16IsNotThere", bfloat16_is_not_there},
    {NULL, NULL}};

int main(void) { return run_cases("CArrow", cases); }

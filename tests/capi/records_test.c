// Batches of records of files: rows of different sizes, damage, and where records lie.
#include <unistd.h>

#include "expect.h"
#include "streams.h"

static void padded_rows_have_shapes_of_their_own(void) {
  const char lines[] = "one\nthree\n\n";
  const path file = make_file(lines, sizeof lines - 1);
  mr_loader* loader = open_file(
      "stage { text { files: \"${FILE}\" compression: \"none\" } } "
      "stage { padded_batch { size: 3 } }",
      &file);
  mr_batch* batch = next_batch(loader);
  mr_tensor tensor = {sizeof tensor};
  EXPECT_OK(mr_batch_tensor(batch, 0, &tensor));
  EXPECT_EQ(tensor.dtype, MR_UINT8);
  EXPECT_EQ(tensor.rank, 2);
  EXPECT_EQ(tensor.shape[0], 3);
  EXPECT_EQ(tensor.shape[1], 5);
  EXPECT_EQ(tensor.bytes, 15);
  EXPECT(memcmp(tensor.data, "one\0\0three\0\0\0\0", 15) == 0);
  const int64_t sizes[] = {3, 5, 0};
  int64_t shape[MR_MAX_RANK];
  int32_t rank = -1;
  for (int row = 0; row < 3; ++row) {
    EXPECT_OK(mr_batch_row_shape(batch, 0, row, shape, &rank));
    EXPECT_EQ(rank, 1);
    EXPECT_EQ(shape[0], sizes[row]);
  }
  EXPECT_ERROR(mr_batch_row_shape(batch, 0, 3, shape, &rank), MR_OUT_OF_RANGE, "no row 3");
  EXPECT_ERROR(mr_batch_row_shape(batch, 0, -1, shape, &rank), MR_OUT_OF_RANGE, "no row -1");
  EXPECT_ERROR(mr_batch_row_shape(batch, 1, 0, shape, &rank), MR_OUT_OF_RANGE, "no tensor 1");
  mr_batch_release(batch);
  mr_loader_free(loader);
  unlink(file.name);
}

typedef struct place {
  char file[64];
  int64_t offset, ordinal;
  int calls;
} place;

static void keep_place(void* user, const mr_record* record) {
  place* kept = user;
  strncpy(kept->file, record->file, sizeof kept->file - 1);
  kept->offset = record->offset;
  kept->ordinal = record->ordinal;
  ++kept->calls;
}

static void damage_is_told_and_its_record_located(void) {
  const char rows[] = "10\n20\nx\n40\n";
  const path file = make_file(rows, sizeof rows - 1);
  mr_loader* loader = open_file(
      "stage { csv { files: \"${FILE}\" compression: \"none\" } } "
      "stage { parse_csv { feature { key: \"a\" dtype: INT64 } } } "
      "stage { batch { size: 4 } } on_damage { policy: \"mask\" max_count: 10 }",
      &file);
  mr_batch* batch = next_batch(loader);
  mr_info info = {sizeof info};
  EXPECT_OK(mr_batch_info(batch, &info));
  EXPECT_EQ(info.valid_rows, 3);
  EXPECT_EQ(info.num_damaged, 1);
  int64_t row = -1;
  mr_sample_id id = {0, 0, 0};
  mr_error* error = NULL;
  EXPECT_OK(mr_batch_damaged(batch, 0, &row, &id, &error));
  EXPECT_OK(mr_batch_damaged(batch, 0, NULL, NULL, NULL));
  EXPECT_ERROR(mr_batch_damaged(batch, 1, &row, &id, &error), MR_OUT_OF_RANGE, "has 1");
  mr_batch_release(batch);
  EXPECT_EQ(row, 2);
  EXPECT_EQ(id.record, 2);
  mr_record record = {sizeof record};
  EXPECT_EQ(mr_error_record(error, &record), 1);
  EXPECT(strcmp(record.file, file.name) == 0);
  EXPECT_EQ(record.ordinal, 2);
  EXPECT_EQ(record.offset, 6);
  EXPECT(mr_error_code(error) != MR_OK);
  mr_error_free(error);

  place kept = {"", -1, -1, 0};
  EXPECT_OK(mr_loader_locate(loader, &id, keep_place, &kept));
  EXPECT_EQ(kept.calls, 1);
  EXPECT(strcmp(kept.file, file.name) == 0);
  EXPECT_EQ(kept.ordinal, 2);
  EXPECT_EQ(kept.offset, 6);
  id.record = 4;
  EXPECT_ERROR(mr_loader_locate(loader, &id, keep_place, &kept), MR_OUT_OF_RANGE, "has 4");
  mr_loader_free(loader);
  unlink(file.name);
}

static const test_case cases[] = {
    {"PaddedRowsHaveShapesOfTheirOwn", padded_rows_have_shapes_of_their_own},
    {"DamageIsToldAndItsRecordLocated", damage_is_told_and_its_record_located},
    {NULL, NULL}};

int main(void) { return run_cases("CRecords", cases); }

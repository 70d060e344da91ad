// Shards that a program writes, and conversions.
#include <dirent.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"
#include "streams.h"

// A folder, and the prefix of shards in it, which has a folder of its own.
typedef struct place {
  char folder[40];
  char prefix[128];
} place;

static place make_place(void) {
  place made = {"/tmp/millrace_capi_XXXXXX", ""};
  EXPECT(mkdtemp(made.folder) != NULL);
  snprintf(made.prefix, sizeof made.prefix, "%s/new/train", made.folder);
  return made;
}

// Returns how many names a folder has, hidden ones too; 0 if there is no folder.
static int count_names(const char* folder) {
  DIR* open = opendir(folder);
  int count = 0;
  const struct dirent* entry;
  if (open == NULL) return 0;
  while ((entry = readdir(open)) != NULL) {
    count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  }
  closedir(open);
  return count;
}

static int count_written(const place* at) {
  char folder[128];
  snprintf(folder, sizeof folder, "%s/new", at->folder);
  return count_names(folder);
}

static void remove_place(const place* at) {
  char command[160];
  snprintf(command, sizeof command, "rm -rf '%s'", at->folder);
  EXPECT_EQ(system(command), 0);
}

// Expects the bytes of a shard: those behind the prefix in its name are `ending`.
static void expect_file(const place* at, const char* ending, const char* bytes, size_t size) {
  char name[256];
  char read[1024];
  snprintf(name, sizeof name, "%s%s", at->prefix, ending);
  FILE* file = fopen(name, "rb");
  EXPECT(file != NULL);
  if (file == NULL) return;
  EXPECT_EQ(fread(read, 1, sizeof read, file), size);
  EXPECT(memcmp(read, bytes, size) == 0);
  fclose(file);
}
#define EXPECT_FILE(at, ending, bytes) expect_file((at), (ending), (bytes), sizeof(bytes) - 1)

// Frames of TFRecord: a length, its masked CRC-32C, the record, its masked CRC-32C.
#define FRAME_ONE                    \
  "\3\0\0\0\0\0\0\0\xb0\x99\x49\x0e" \
  "one"                              \
  "\x01\x40\x55\x08"
#define FRAME_TWO                    \
  "\3\0\0\0\0\0\0\0\xb0\x99\x49\x0e" \
  "two"                              \
  "\x89\x90\xc9\x09"
#define FRAME_NONE "\0\0\0\0\0\0\0\0\x29\x03\x98\x07\xd8\xea\x82\xa2"

static mr_writer* open_writer(const place* at, int32_t shards) {
  mr_writer_options options = {sizeof options};
  options.prefix = at->prefix;
  options.shards = shards;
  mr_writer* writer = NULL;
  EXPECT_OK(mr_writer_open(&options, &writer));
  return writer;
}

static void write_three(mr_writer* writer) {
  EXPECT_OK(mr_writer_write(writer, "one", 3));
  EXPECT_OK(mr_writer_write(writer, "two", 3));
  EXPECT_OK(mr_writer_write(writer, NULL, 0));
}

static void shards_appear_when_the_writer_is_closed(void) {
  const place at = make_place();
  mr_writer* writer = open_writer(&at, 2);
  write_three(writer);
  EXPECT_EQ(count_written(&at), 1);  // the hidden folder
  EXPECT_OK(mr_writer_close(writer, NULL, NULL));
  EXPECT_EQ(count_written(&at), 3);
  EXPECT_FILE(&at, "-00000-of-00002.tfrecord", FRAME_ONE);
  EXPECT_FILE(&at, "-00001-of-00002.tfrecord", FRAME_TWO FRAME_NONE);
  EXPECT_ERROR(mr_writer_write(writer, "x", 1), MR_FAILED_PRECONDITION, "closed");
  EXPECT_ERROR(mr_writer_close(writer, NULL, NULL), MR_FAILED_PRECONDITION, "closed");
  mr_writer_free(writer);
  EXPECT_EQ(count_written(&at), 3);
  remove_place(&at);
}

static void a_writer_that_is_freed_leaves_nothing(void) {
  const place at = make_place();
  for (int32_t shards = 1; shards <= 2; ++shards) {
    mr_writer* writer = open_writer(&at, shards);
    write_three(writer);
    mr_writer_free(writer);
    EXPECT_EQ(count_names(at.folder), 0);
  }
  mr_writer_free(NULL);
  remove_place(&at);
}

typedef struct told {
  int calls;
  int cancel_at;
  int64_t done, total;
} told;

static int32_t tell(void* user, int64_t done, int64_t total) {
  told* to = user;
  to->done = done;
  to->total = total;
  return ++to->calls == to->cancel_at;
}

static void closing_tells_its_progress_and_is_cancelled(void) {
  const place at = make_place();
  mr_writer* writer = open_writer(&at, 3);
  write_three(writer);
  told to = {0, 2, 0, 0};
  EXPECT_ERROR(mr_writer_close(writer, tell, &to), MR_CANCELLED, "cancelled");
  EXPECT_EQ(to.done, 2);
  EXPECT_EQ(to.total, 3);
  mr_writer_free(writer);
  EXPECT_EQ(count_names(at.folder), 0);
  writer = open_writer(&at, 3);
  write_three(writer);
  to.cancel_at = 0;
  EXPECT_OK(mr_writer_close(writer, tell, &to));
  EXPECT_EQ(to.calls, 5);
  mr_writer_free(writer);
  EXPECT_EQ(count_written(&at), 4);
  remove_place(&at);
}

static void options_of_writers_are_checked(void) {
  const place at = make_place();
  mr_writer_options options = {sizeof options};
  mr_writer* writer = NULL;
  EXPECT_ERROR(mr_writer_open(NULL, &writer), MR_INVALID_ARGUMENT, "options is NULL");
  EXPECT_ERROR(mr_writer_open(&options, NULL), MR_INVALID_ARGUMENT, "writer is NULL");
  EXPECT_ERROR(mr_writer_open(&options, &writer), MR_INVALID_ARGUMENT, "prefix is NULL");
  options.prefix = "/tmp/";
  EXPECT_ERROR(mr_writer_open(&options, &writer), MR_INVALID_ARGUMENT, "ends in no name");
  options.prefix = "http://host/train";
  EXPECT_ERROR(mr_writer_open(&options, &writer), MR_UNIMPLEMENTED, "http");
  options.prefix = "/proc/none/train";
  EXPECT_ERROR(mr_writer_open(&options, &writer), MR_NOT_FOUND, "/proc/none");
  options.prefix = at.prefix;
  options.compression = "brotli";
  EXPECT_ERROR(mr_writer_open(&options, &writer), MR_INVALID_ARGUMENT, "compression: 'brotli'");
  options.compression = "zstd";
  options.compression_level = 10;
  EXPECT_ERROR(mr_writer_open(&options, &writer), MR_INVALID_ARGUMENT, "compression_level: 10");
  options.compression_level = 0;
  options.shards = -1;
  EXPECT_ERROR(mr_writer_open(&options, &writer), MR_INVALID_ARGUMENT, "num_shards: -1");
  EXPECT(writer == NULL);
  EXPECT_EQ(count_names(at.folder), 0);
  remove_place(&at);
}

static void shards_that_exist_are_kept(void) {
  const place at = make_place();
  mr_writer* writer = open_writer(&at, 1);
  EXPECT_OK(mr_writer_write(writer, "one", 3));
  EXPECT_OK(mr_writer_close(writer, NULL, NULL));
  mr_writer_free(writer);
  mr_writer_options options = {sizeof options};
  options.prefix = at.prefix;
  EXPECT_ERROR(mr_writer_open(&options, &writer), MR_ALREADY_EXISTS, "exists already");
  EXPECT_FILE(&at, "-00000-of-00001.tfrecord", FRAME_ONE);
  options.overwrite = 1;
  EXPECT_OK(mr_writer_open(&options, &writer));
  EXPECT_OK(mr_writer_write(writer, "two", 3));
  EXPECT_FILE(&at, "-00000-of-00001.tfrecord", FRAME_ONE);
  EXPECT_OK(mr_writer_close(writer, NULL, NULL));
  mr_writer_free(writer);
  EXPECT_FILE(&at, "-00000-of-00001.tfrecord", FRAME_TWO);
  EXPECT_EQ(count_written(&at), 2);
  remove_place(&at);
}

static void more_shards_than_records_are_invalid(void) {
  const place at = make_place();
  mr_writer* writer = open_writer(&at, 4);
  write_three(writer);
  EXPECT_ERROR(mr_writer_close(writer, NULL, NULL), MR_INVALID_ARGUMENT,
               "num_shards: 4 shards for 3 records");
  mr_writer_free(writer);
  EXPECT_EQ(count_names(at.folder), 0);
  remove_place(&at);
}

static void examples_are_read_by_a_plan(void) {
  const place at = make_place();
  mr_writer* writer = open_writer(&at, 1);
  for (int64_t i = 0; i < 3; ++i) {
    const float box[] = {(float)i, 0.5f};
    const void* texts[] = {"ab", ""};
    const size_t sizes[] = {2, 0};
    const mr_feature features[] = {{"label", MR_INT64, 0, 1, &i, NULL},
                                   {"box", MR_FLOAT32, 0, 2, box, NULL},
                                   {"texts", MR_BYTES, 0, 2, texts, sizes},
                                   {"empty", MR_INT64, 0, 0, NULL, NULL}};
    EXPECT_OK(mr_writer_write_example(writer, features, 4));
  }
  EXPECT_OK(mr_writer_close(writer, NULL, NULL));
  mr_writer_free(writer);
  path shard;
  snprintf(shard.name, sizeof shard.name, "%s/shard", at.folder);
  char name[256];
  snprintf(name, sizeof name, "%s-00000-of-00001.tfrecord", at.prefix);
  EXPECT_EQ(rename(name, shard.name), 0);
  mr_loader* loader = open_file(
      "stage { tfrecord { files: \"${FILE}\" } } stage { parse_example { "
      "feature { key: \"label\" dtype: INT64 } feature { key: \"box\" dtype: FLOAT32 shape: [2] } "
      "} } stage { batch { size: 3 } }",
      &shard);
  mr_batch* batch = next_batch(loader);
  const int64_t labels[] = {0, 1, 2};
  const float boxes[] = {0, 0.5f, 1, 0.5f, 2, 0.5f};
  for (size_t i = 0; i < 2; ++i) {
    mr_tensor tensor = {sizeof tensor};
    EXPECT_OK(mr_batch_tensor(batch, i, &tensor));
    const int is_label = strcmp(tensor.name, "label") == 0;
    EXPECT_EQ(tensor.bytes, 24);
    EXPECT(memcmp(tensor.data, is_label ? (const void*)labels : boxes, 24) == 0);
  }
  mr_batch_release(batch);
  mr_loader_free(loader);
  remove_place(&at);
}

static void wrong_features_are_invalid(void) {
  const place at = make_place();
  mr_writer* writer = open_writer(&at, 1);
  const int64_t one = 1;
  const void* values[] = {NULL};
  const size_t sizes[] = {1};
  const size_t huge[] = {(size_t)1 << 31};
  const struct {
    mr_feature feature;
    const char* text;
  } wrong[] = {
      {{NULL, MR_INT64, 0, 1, &one, NULL}, "name is NULL"},
      {{"\xff", MR_INT64, 0, 1, &one, NULL}, "not UTF-8"},
      {{"a", MR_UINT8, 0, 1, &one, NULL}, "feature 'a': dtype 1 is not"},
      {{"a", MR_INT64, 0, 1, NULL, NULL}, "feature 'a': values is NULL"},
      {{"a", MR_BYTES, 0, 1, values, NULL}, "feature 'a': sizes is NULL"},
      {{"a", MR_BYTES, 0, 1, values, sizes}, "feature 'a': value 0 is NULL"},
      {{"a", MR_FLOAT32, 0, (size_t)1 << 62, &one, NULL}, "2 GiB"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    EXPECT_ERROR(mr_writer_write_example(writer, &wrong[i].feature, 1), MR_INVALID_ARGUMENT,
                 wrong[i].text);
  }
  values[0] = "x";
  const mr_feature large = {"a", MR_BYTES, 0, 1, values, huge};
  EXPECT_ERROR(mr_writer_write_example(writer, &large, 1), MR_INVALID_ARGUMENT, "2 GiB");
  const mr_feature twice[] = {{"a", MR_INT64, 0, 1, &one, NULL},
                              {"b", MR_INT64, 0, 1, &one, NULL},
                              {"a", MR_BYTES, 0, 0, NULL, NULL}};
  EXPECT_ERROR(mr_writer_write_example(writer, twice, 3), MR_INVALID_ARGUMENT,
               "feature 'a': is there twice");
  EXPECT_ERROR(mr_writer_write_example(writer, NULL, 1), MR_INVALID_ARGUMENT, "features is NULL");
  EXPECT_ERROR(mr_writer_write_example(NULL, twice, 1), MR_INVALID_ARGUMENT, "writer is NULL");
  EXPECT_ERROR(mr_writer_write(writer, NULL, 1), MR_INVALID_ARGUMENT, "record is NULL");
  EXPECT_ERROR(mr_writer_write(NULL, "x", 1), MR_INVALID_ARGUMENT, "writer is NULL");
  EXPECT_ERROR(mr_writer_close(NULL, NULL, NULL), MR_INVALID_ARGUMENT, "writer is NULL");
  // None of these was written, and none has broken the writer.
  EXPECT_OK(mr_writer_write(writer, "one", 3));
  EXPECT_OK(mr_writer_close(writer, NULL, NULL));
  mr_writer_free(writer);
  EXPECT_FILE(&at, "-00000-of-00001.tfrecord", FRAME_ONE);
  remove_place(&at);
}

static void a_forked_child_leaves_the_writer_to_its_parent(void) {
  const place at = make_place();
  mr_writer* writer = open_writer(&at, 1);
  EXPECT_OK(mr_writer_write(writer, "one", 3));
  const pid_t child = fork();
  if (child == 0) {
    failures = 0;
    EXPECT_ERROR(mr_writer_write(writer, "x", 1), MR_FAILED_PRECONDITION, "forked");
    EXPECT_ERROR(mr_writer_close(writer, NULL, NULL), MR_FAILED_PRECONDITION, "forked");
    mr_writer_free(writer);
    _exit(failures);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_OK(mr_writer_close(writer, NULL, NULL));
  mr_writer_free(writer);
  EXPECT_FILE(&at, "-00000-of-00001.tfrecord", FRAME_ONE);
  remove_place(&at);
}

// ---- Conversions ----

static mr_convert_options lines_to(const place* at, const char* const* files) {
  mr_convert_options options = {sizeof options};
  options.from = "text";
  options.files = files;
  options.num_files = 1;
  options.prefix = at->prefix;
  options.threads = 1;
  options.index_folder = at->folder;
  return options;
}

static void lines_become_records(void) {
  const place at = make_place();
  const char lines[] = "one\ntwo\n\n";
  const path file = make_file(lines, sizeof lines - 1);
  const char* files[] = {file.name};
  mr_convert_options options = lines_to(&at, files);
  told to = {0, 0, 0, 0};
  options.shards = 2;
  options.progress = tell;
  options.user = &to;
  mr_convert_report report = {sizeof report};
  EXPECT_OK(mr_convert(&options, &report));
  EXPECT_EQ(report.records, 3);
  EXPECT_EQ(report.left_out, 0);
  EXPECT_EQ(report.file_bytes, 3 * 16 + 6);
  EXPECT(to.calls >= 3);
  EXPECT_EQ(to.done, 3);
  EXPECT_EQ(to.total, 3);
  EXPECT_FILE(&at, "-00000-of-00002.tfrecord", FRAME_ONE);
  EXPECT_FILE(&at, "-00001-of-00002.tfrecord", FRAME_TWO FRAME_NONE);
  EXPECT_ERROR(mr_convert(&options, NULL), MR_ALREADY_EXISTS, "exists already");
  options.overwrite = 1;
  EXPECT_OK(mr_convert(&options, NULL));
  unlink(file.name);
  remove_place(&at);
}

static void a_cancelled_conversion_goes_on(void) {
  const place at = make_place();
  const char lines[] = "one\ntwo\n\n";
  const path file = make_file(lines, sizeof lines - 1);
  const char* files[] = {file.name};
  mr_convert_options options = lines_to(&at, files);
  told to = {0, 2, 0, 0};
  options.shards = 3;
  options.progress = tell;
  options.user = &to;
  EXPECT_ERROR(mr_convert(&options, NULL), MR_CANCELLED, "cancelled");
  EXPECT_EQ(to.done, 2);
  EXPECT_EQ(count_written(&at), 1);  // a hidden folder with the first shard
  to = (told){0, 0, 0, 0};
  EXPECT_OK(mr_convert(&options, NULL));
  EXPECT_EQ(to.calls, 2);  // the second record and the third
  EXPECT_EQ(count_written(&at), 4);
  EXPECT_FILE(&at, "-00000-of-00003.tfrecord", FRAME_ONE);
  EXPECT_FILE(&at, "-00001-of-00003.tfrecord", FRAME_TWO);
  unlink(file.name);
  remove_place(&at);
}

typedef struct bad {
  int count;
  int32_t code;
  int64_t ordinal;
} bad;

static void take_bad(void* user, const mr_error* error) {
  bad* taken = user;
  mr_record record = {sizeof record};
  ++taken->count;
  taken->code = mr_error_code(error);
  if (mr_error_record(error, &record)) taken->ordinal = record.ordinal;
}

static void bad_records_are_told_and_left_out_if_asked(void) {
  const place at = make_place();
  const char rows[] = "1\nx\n3\n";
  const path file = make_file(rows, sizeof rows - 1);
  const char* files[] = {file.name};
  mr_convert_options options = lines_to(&at, files);
  bad taken = {0, MR_OK, -1};
  options.from = "csv";
  options.schema = "number:int64";
  options.bad_record = take_bad;
  options.user = &taken;
  EXPECT_ERROR(mr_convert(&options, NULL), MR_INVALID_ARGUMENT, "number");
  EXPECT_EQ(taken.count, 1);
  EXPECT_EQ(taken.ordinal, 1);
  EXPECT(taken.code != MR_OK);
  EXPECT_EQ(count_written(&at), 0);
  options.on_damage = "skip";
  mr_convert_report report = {sizeof report};
  EXPECT_OK(mr_convert(&options, &report));
  EXPECT_EQ(taken.count, 2);
  EXPECT_EQ(report.records, 2);
  EXPECT_EQ(report.left_out, 1);
  unlink(file.name);
  remove_place(&at);
}

static void options_of_conversions_are_checked(void) {
  const place at = make_place();
  const char* files[] = {"/dev/null", NULL};
  const mr_convert_options good = lines_to(&at, files);
  mr_convert_options options = good;
  mr_convert_report report = {0};
  EXPECT_ERROR(mr_convert(NULL, NULL), MR_INVALID_ARGUMENT, "options is NULL");
  EXPECT_ERROR(mr_convert(&options, &report), MR_INVALID_ARGUMENT, "sizeof(mr_convert_report)");
#define EXPECT_BAD(field, value, text) \
  options = good;                      \
  options.field = value;               \
  EXPECT_ERROR(mr_convert(&options, NULL), MR_INVALID_ARGUMENT, text)
  EXPECT_BAD(struct_size, 0, "sizeof(mr_convert_options)");
  EXPECT_BAD(from, NULL, "from is NULL");
  EXPECT_BAD(from, "xml", "from: 'xml' is no format; there are tfrecord, text");
  EXPECT_BAD(to, "xml", "to: 'xml'");
  EXPECT_BAD(files, NULL, "files is NULL");
  EXPECT_BAD(num_files, 2, "a name of files is NULL");
  EXPECT_BAD(num_files, 0, "files: none given");
  EXPECT_BAD(prefix, NULL, "prefix is NULL");
  EXPECT_BAD(images, "/tmp", "images: only idx and images");
  EXPECT_BAD(compression, "br", "compression: 'br'");
  EXPECT_BAD(input_compression, "br", "input_compression: 'br'");
  EXPECT_BAD(delimiter, "ab", "delimiter: \"ab\" is not one byte");
  EXPECT_BAD(schema, "a", "schema: 'a'");
  EXPECT_BAD(write_mode, "gif", "write_mode: 'gif' is none of raw, jpg, smart, proportion");
  EXPECT_BAD(write_mode, "smart", "smart_threshold");
  EXPECT_BAD(image_encoding, "gif", "image_encoding: 'gif'");
  EXPECT_BAD(jpeg_quality, 90, "jpeg_quality: no image");
  EXPECT_BAD(jpeg_quality, -1, "jpeg_quality: is negative");
  EXPECT_BAD(check_images, "all", "check_images: 'all'");
  EXPECT_BAD(on_damage, "stop", "on_damage: 'stop'");
  EXPECT_BAD(shards, -1, "num_shards: -1");
  EXPECT_BAD(threads, -1, "threads: -1");
  EXPECT_BAD(compression_level, 11, "compression_level: 11");
  options = good;
  files[0] = "/tmp/millrace_no_such_file";
  EXPECT_ERROR(mr_convert(&options, NULL), MR_NOT_FOUND, "millrace_no_such_file");
  EXPECT_EQ(count_names(at.folder), 0);
  remove_place(&at);
}

static const test_case cases[] = {
    {"ShardsAppearWhenTheWriterIsClosed", shards_appear_when_the_writer_is_closed},
    {"AWriterThatIsFreedLeavesNothing", a_writer_that_is_freed_leaves_nothing},
    {"ClosingTellsItsProgressAndIsCancelled", closing_tells_its_progress_and_is_cancelled},
    {"OptionsOfWritersAreChecked", options_of_writers_are_checked},
    {"ShardsThatExistAreKept", shards_that_exist_are_kept},
    {"MoreShardsThanRecordsAreInvalid", more_shards_than_records_are_invalid},
    {"ExamplesAreReadByAPlan", examples_are_read_by_a_plan},
    {"WrongFeaturesAreInvalid", wrong_features_are_invalid},
    {"AForkedChildLeavesTheWriterToItsParent", a_forked_child_leaves_the_writer_to_its_parent},
    {"LinesBecomeRecords", lines_become_records},
    {"ACancelledConversionGoesOn", a_cancelled_conversion_goes_on},
    {"BadRecordsAreToldAndLeftOutIfAsked", bad_records_are_told_and_left_out_if_asked},
    {"OptionsOfConversionsAreChecked", options_of_conversions_are_checked},
    {NULL, NULL}};

int main(void) { return run_cases("CWriter", cases); }

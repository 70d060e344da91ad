#ifndef MILLRACE_CAPI_MILLRACE_H_
#define MILLRACE_CAPI_MILLRACE_H_

#include <stddef.h>
#include <stdint.h>

// Millrace for C, and for languages that call C: libmillrace.so.1.
//
//   plan -> loader -> batch -> tensors
//
// A plan says what to read and how, a context owns threads and memory, a loader is a plan that
// runs, and a batch holds the tensors that it delivers. millrace_device.h has loaders whose batches
// lie in the memory of a GPU.
//
// Handles are opaque. A call that makes one gives it to the caller, who frees it with the `free`
// call of its type. Every `free` takes NULL and does nothing. Handles may be freed in any order: a
// loader keeps what it needs of its plan and its context, and a batch keeps its memory.
//
// Errors. A call that can fail returns an mr_error, which the caller owns, or NULL if it succeeded.
// Where it fails, results that it would have written are not written, unless the call says so. An
// argument that must not be NULL and is NULL is MR_INVALID_ARGUMENT. Every call that returns an
// mr_error may also return MR_RESOURCE_EXHAUSTED, where the system gives no memory or no thread,
// and MR_INTERNAL, which is a bug of Millrace. No C++ exception leaves a call, and no call prints,
// ends the process, or keeps a state per thread.
//
// Structs. Each begins with `struct_size`, which the caller sets to the sizeof that it was compiled
// with, before every call that takes the struct:
//
//   mr_open_options options = {sizeof options};   // all else zero: the defaults
//   mr_info info = {sizeof info};
//
// Later versions append fields only. A field that an older caller does not have gets its default,
// which is 0 or NULL for each field, and one that it has no room for is not written. In a struct of
// options, a field that this library does not know must be zero, else the call is
// MR_INVALID_ARGUMENT; in one of results, it is set to zero. Numbers that are truth values are 0
// for false, and all others mean true.
//
// Text is UTF-8. Names and paths that go in end with a zero byte. Longer text comes out through an
// mr_sink, so that nobody frees the memory of another.
//
// Threads. A plan, a context, a batch and an error may be used by any threads at once; freeing or
// releasing one is the last use. A loader is used by one thread at a time, but for
// mr_loader_cancel; a writer by one thread at a time. In a forked child, calls of what was made
// before the fork are MR_FAILED_PRECONDITION: make a context and a loader there instead.

// The version of this interface: MR_ABI_MAJOR is the number in the name of the library. A larger
// minor number has more functions, or fields at the ends of structs.
#define MR_ABI_MAJOR 1
#define MR_ABI_MINOR 1

#if defined(__GNUC__)
#define MR_API __attribute__((visibility("default")))
#else
#define MR_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_error mr_error;
typedef struct mr_context mr_context;
typedef struct mr_plan mr_plan;
typedef struct mr_loader mr_loader;
typedef struct mr_batch mr_batch;

// Takes a piece of a text: `size` bytes at `text`, which live during the call and have no zero byte
// behind them. It is called by the thread that made the call to which it was given, before that
// call returns, once or several times with one piece after the other.
typedef void (*mr_sink)(void* user, const char* text, size_t size);

// ---- Library ----

// Returns the version of the library that runs: its major number times 65536, plus its minor one.
MR_API uint32_t mr_abi_version(void);
// Returns Millrace's version, such as "0.1.0". The text lives as long as the process.
MR_API const char* mr_version_text(void);

// ---- Errors ----

// The codes of errors, which are those of absl::Status.
enum mr_code {
  MR_OK = 0,
  MR_CANCELLED = 1,
  MR_UNKNOWN = 2,
  MR_INVALID_ARGUMENT = 3,
  MR_DEADLINE_EXCEEDED = 4,
  MR_NOT_FOUND = 5,
  MR_ALREADY_EXISTS = 6,
  MR_PERMISSION_DENIED = 7,
  MR_RESOURCE_EXHAUSTED = 8,
  MR_FAILED_PRECONDITION = 9,
  MR_ABORTED = 10,
  MR_OUT_OF_RANGE = 11,
  MR_UNIMPLEMENTED = 12,
  MR_INTERNAL = 13,
  MR_UNAVAILABLE = 14,
  MR_DATA_LOSS = 15,
  MR_UNAUTHENTICATED = 16
};

// Why a record is bad.
enum mr_record_reason {
  MR_RECORD_UNKNOWN = 0,
  MR_RECORD_LENGTH_CRC = 1,         // the CRC of the length field does not match
  MR_RECORD_DATA_CRC = 2,           // the CRC of the payload does not match
  MR_RECORD_TRUNCATED_HEADER = 3,   // a few stray bytes where a record's header should stand
  MR_RECORD_TRUNCATED_PAYLOAD = 4,  // the file ends inside a payload or its CRC
  MR_RECORD_ABSURD_LENGTH = 5,      // a length over the declared cap
  MR_RECORD_COMPRESSED_DATA = 6,    // the compressed stream is corrupt
  MR_RECORD_COMPRESSED_CUT = 7,     // the compressed stream ends before its end marker
  MR_RECORD_WRONG_COMPRESSION = 8,  // the bytes do not look like the declared compression
  MR_RECORD_EXAMPLE = 9,            // the payload is not what the plan parses
  MR_RECORD_FEATURE = 10,           // a feature is missing, or of another type or length
  MR_RECORD_IMAGE = 11,             // image bytes that no decoder takes
  MR_RECORD_VALUE = 12              // a value outside the range that an op accepts
};

// Which record an error is about.
typedef struct mr_record {
  size_t struct_size;
  const char* file;  // lives as long as the error
  int64_t offset;    // bytes from the start of the (inflated) file; -1: not known
  int64_t ordinal;   // number of the record in its file, from 0; -1: not known
  int64_t position;  // position in the stream; -1: not known
  int32_t reason;    // an mr_record_reason
  int32_t reserved;  // 0
} mr_record;

// The rank that a group has lost.
typedef struct mr_peer {
  size_t struct_size;
  int64_t step;       // the step in which it was seen last; -1: not known
  int32_t rank;       // its rank in the group; with step -1, its rank in the job
  int32_t bucket;     // the bucket of gradients that it was in; -1: none
  const char* phase;  // the phase of the step, such as "reducing"; lives as long as the process
} mr_peer;

// Makes an error, for a callback to return. A code that is none of an error becomes MR_UNKNOWN;
// `message` may be NULL. Never NULL.
MR_API mr_error* mr_error_create(int32_t code, const char* message);
// Returns an mr_code; MR_OK for NULL.
MR_API int32_t mr_error_code(const mr_error* error);
// Returns the text of the error, which lives as long as the error; "" for NULL. Texts are for
// people, and change between versions.
MR_API const char* mr_error_message(const mr_error* error);
// Returns true if the cause is in the caller's hands, who removes it and calls again: batches that
// it holds and that leave no room for the next one, for example.
MR_API int32_t mr_error_retryable(const mr_error* error);
// Writes which record the error is about, and returns true; false if it is about none, or if the
// struct has no size.
MR_API int32_t mr_error_record(const mr_error* error, mr_record* record);
// Writes which rank was lost, and returns true; false if none was, or if the struct has no size.
MR_API int32_t mr_error_peer(const mr_error* error, mr_peer* peer);
MR_API void mr_error_free(mr_error* error);

// ---- Cancelling ----

// The wish that calls end: an option of those that may take long.
typedef struct mr_cancel mr_cancel;
MR_API mr_error* mr_cancel_create(mr_cancel** cancel);
// Makes the calls under way that were given it, and every later one, MR_CANCELLED, within about a
// tenth of a second. Any thread may call it, also from a callback or the handler of a signal.
MR_API void mr_cancel_set(mr_cancel* cancel);
MR_API void mr_cancel_free(mr_cancel* cancel);

// ---- Context ----

enum mr_log_level { MR_LOG_INFO = 0, MR_LOG_WARNING = 1, MR_LOG_ERROR = 2 };

typedef struct mr_context_options {
  size_t struct_size;
  int32_t threads;              // worker threads; 0: the cores that the process may use
  int32_t batch_priority;       // true if they run below threads that compute (SCHED_BATCH)
  int64_t memory_budget_bytes;  // for all loaders together; 0: 2 GiB
  int64_t read_deadline_ms;     // a read under way so long is logged; 0: 30 s; below 0: never
  // Takes a message of `size` bytes, of an mr_log_level. It is called by any thread, by several at
  // once, and must not call Millrace. NULL: messages are dropped.
  void (*log)(void* user, int32_t level, const char* message, size_t size);
  void* log_user;
  // Called once, when `log` will not be called any more, also if mr_context_create fails behind the
  // check of the struct. May be NULL.
  void (*log_destroy)(void* user);
  const struct mr_batch_memory* memory;  // of the program (millrace_options.h); may be NULL
} mr_context_options;

// Makes a context: worker threads, files, memory budget, metrics. One for all loaders of a process
// is enough. `options` may be NULL.
//   MR_INVALID_ARGUMENT    an option is out of range
//   MR_RESOURCE_EXHAUSTED  the system gives no thread
MR_API mr_error* mr_context_create(const mr_context_options* options, mr_context** context);
// Writes the metrics in Prometheus' text format: lines "NAME VALUE", and comments behind "#".
MR_API mr_error* mr_context_metrics(const mr_context* context, mr_sink sink, void* user);
// Gives the handle back. The context ends with the last loader that uses it, and waits for its
// threads: here, or in that loader's mr_loader_free.
MR_API void mr_context_free(mr_context* context);

// ---- Plan ----

// Reads a plan, a file in protobuf text format. ${NAME} in its text is replaced by the value of the
// variable of that name: names[i] has values[i]. Both may be NULL if num_variables is 0. Relative
// names of files in the plan are relative to its folder, values of variables to the current folder.
//   MR_NOT_FOUND         no such file
//   MR_INVALID_ARGUMENT  "FILE:LINE:COLUMN: ..." for each mistake in the plan
MR_API mr_error* mr_plan_from_file(const char* path, const char* const* names,
                                   const char* const* values, size_t num_variables, mr_plan** plan);
// The same from `size` bytes at `text`. `origin` stands for the file's name in messages, and all
// relative names are relative to the current folder.
MR_API mr_error* mr_plan_from_text(const char* text, size_t size, const char* origin,
                                   const char* const* names, const char* const* values,
                                   size_t num_variables, mr_plan** plan);
// Writes the plan with every default and variable filled in, as text of a plan file.
MR_API mr_error* mr_plan_text(const mr_plan* plan, mr_sink sink, void* user);
// Returns a hash of what the plan delivers, without paths and fields that only change its speed; 0
// for NULL.
MR_API uint64_t mr_plan_fingerprint(const mr_plan* plan);

// A stage of a plan, with its defaults filled in. The texts live during the call that gets them.
typedef struct mr_stage {
  size_t struct_size;
  const char* name;
  const char* op;
  const char* options;  // one line of protobuf text format; "" where there are none
} mr_stage;
// Calls `visit` for each stage, in their order, before it returns.
MR_API mr_error* mr_plan_stages(const mr_plan* plan,
                                void (*visit)(void* user, const mr_stage* stage), void* user);
MR_API void mr_plan_free(mr_plan* plan);

// ---- Tensors ----

// The types of elements.
enum mr_dtype {
  MR_BYTES = 0,  // bytes, whose one extent is their size; never in a batch
  MR_UINT8 = 1,
  MR_INT32 = 2,
  MR_INT64 = 3,
  MR_FLOAT16 = 4,
  MR_BFLOAT16 = 5,
  MR_FLOAT32 = 6,
  MR_FLOAT64 = 7
};

// The most extents of a tensor.
#define MR_MAX_RANK 8

// A field of samples or batches. The name lives during the call that gets it.
typedef struct mr_field {
  size_t struct_size;
  const char* name;
  int32_t dtype;               // an mr_dtype
  int32_t rank;                // the number of extents of a sample's value
  int64_t shape[MR_MAX_RANK];  // these extents; -1: different from sample to sample
} mr_field;

// A tensor of a batch, row-major and without gaps. Name and data live as long as the batch.
typedef struct mr_tensor {
  size_t struct_size;
  const char* name;
  void* data;      // aligned to 64 bytes; may be written, and all who hold the batch see it
  uint64_t bytes;  // the size of the data
  int32_t dtype;   // an mr_dtype
  int32_t rank;    // the number of extents
  int64_t shape[MR_MAX_RANK];  // the extents, the rows first
} mr_tensor;

// Which record a row is. Not a struct with a size: it never changes.
typedef struct mr_sample_id {
  uint64_t epoch;      // the number of earlier passes over the source
  uint64_t record;     // the number of the record in the whole source, from 0
  uint64_t sub_index;  // the number of the sample among those that its record was split into
} mr_sample_id;

// ---- Sources in the program ----

typedef struct mr_memory mr_memory;
typedef struct mr_push mr_push;
// Copies `count` records, for a stage memory {} of a plan (mr_open_options): records[i] has
// sizes[i] bytes. The handle may be used by any threads at once, and by several loaders.
MR_API mr_error* mr_memory_create(const void* const* records, const size_t* sizes, size_t count,
                                  mr_memory** memory);
// Gives the handle back; loaders keep the records.
MR_API void mr_memory_free(mr_memory* memory);

typedef struct mr_push_options {
  size_t struct_size;
  const char* name;    // the name of the stream, on which its fingerprint depends; NULL: "push"
  uint64_t max_bytes;  // the most bytes of records that wait to be read; 0: 64 MiB
} mr_push_options;

// Makes a source of records that the program feeds, for a plan that begins with push {}. One loader
// can read it, once, in the order of the calls. The handle may be used by any threads at once.
// `options` may be NULL.
MR_API mr_error* mr_push_create(const mr_push_options* options, mr_push** push);
// Appends a copy of a record; waits while the source is full. A loader that is cancelled or freed
// ends the wait.
//   MR_CANCELLED            the loader has ended, so that nothing will read the record
//   MR_FAILED_PRECONDITION  mr_push_finish or mr_push_fail was called
MR_API mr_error* mr_push_push(mr_push* push, const void* record, size_t size);
// The same without waiting. Writes false into `taken` if the source is full.
MR_API mr_error* mr_push_try_push(mr_push* push, const void* record, size_t size, int32_t* taken);
// The same with a wait of at most `timeout_ns` nanoseconds; below 0: without a limit. Writes false
// into `taken` if the source stayed full.
MR_API mr_error* mr_push_push_for(mr_push* push, const void* record, size_t size,
                                  int64_t timeout_ns, int32_t* taken);
// Ends the stream behind the last record.
MR_API mr_error* mr_push_finish(mr_push* push);
// Ends the stream with an error, which the loader returns behind the last record. Only the first
// call of this or mr_push_finish has an effect.
//   MR_INVALID_ARGUMENT  the code is none of an error
MR_API mr_error* mr_push_fail(mr_push* push, int32_t code, const char* message);
// Gives the handle back. A stream that was not ended ends with MR_ABORTED.
MR_API void mr_push_free(mr_push* push);

// ---- Ops of the program ----

// A table of ops, for the custom stages of plans: stage { custom { op: "NAME" version: 1 } }. Ops
// are registered by one thread, before the table is given to mr_loader_open.
typedef struct mr_ops mr_ops;
MR_API mr_error* mr_ops_create(mr_ops** ops);
// Gives the handle back; loaders keep the ops.
MR_API void mr_ops_free(mr_ops* ops);

typedef struct mr_draws mr_draws;

// This rank's slice of a finished batch, while an op works on it. It lives for one call.
typedef struct mr_batch_view {
  size_t struct_size;
  uint64_t index;             // as in mr_info
  uint64_t epoch;             // as in mr_info
  int64_t rows;               // as in mr_info
  int64_t first_global_row;   // as in mr_info
  int64_t global_valid_rows;  // as in mr_info
  const uint8_t* valid;       // as mr_batch_valid
  const mr_sample_id* ids;    // as mr_batch_ids
  const mr_tensor* tensors;   // each lies the first one's struct_size behind the one before it
  size_t num_tensors;         // the number of tensors
  const char* options;        // the text in the plan
  const mr_draws* draws;      // the random words, for mr_batch_random
} mr_batch_view;

// An op that changes the values of finished batches in place. Workers call it, several at once and
// on different batches; it must not call the loader but for mr_loader_cancel. The result of a row
// may depend on the batch's numbers and on the rows of its group alone. Rows that are not valid
// must stay zero.
typedef struct mr_batch_op {
  size_t struct_size;
  // Returns NULL, or an error of mr_error_create, which is that of the batch.
  mr_error* (*apply)(void* user, const mr_batch_view* batch);
  void* user;
  // Called once, when `apply` will not be called any more, also if mr_ops_register_batch fails
  // behind the check of the struct. May be NULL.
  void (*destroy)(void* user);
  uint64_t group_rows;  // the rows that are mixed with each other; 0: 1
} mr_batch_op;
// Adds an op. A name has 1 to 64 letters, digits, '_', '-', '.' and '/'; a version is at least 1.
// An op that computes something else gets another version.
//   MR_INVALID_ARGUMENT  the name or the version is not valid
//   MR_ALREADY_EXISTS    the table has an op of that name and version
MR_API mr_error* mr_ops_register_batch(mr_ops* ops, const char* name, uint32_t version,
                                       const mr_batch_op* op);
// Writes the first `count` random words of a row, the same in a world of any size; below 0: of the
// batch as a whole, the same on every rank. For the call of an op alone.
MR_API void mr_batch_random(const mr_batch_view* batch, int64_t row, uint32_t* words, size_t count);

// A field of a run, which an op on runs reads. Each row has a value.
typedef struct mr_column {
  size_t struct_size;
  const char* name;
  int32_t dtype;  // an mr_dtype
  // The number of extents of a value; -1: values differ in shape or lie apart (mr_run_value).
  int32_t rank;
  int64_t shape[MR_MAX_RANK];  // the extents of a value
  const void* first;           // the first row's value; NULL with rank -1
  int64_t stride_bytes;        // the distance of rows
} mr_column;

typedef struct mr_run mr_run;

// Consecutive samples, while an op works on them. It lives for one call.
typedef struct mr_run_view {
  size_t struct_size;
  int64_t rows;
  const uint8_t* ok;        // a byte per row; 0: an earlier stage failed for it, and it is skipped
  const mr_sample_id* ids;  // an id per row
  const mr_column* reads;   // each lies the first one's struct_size behind the one before it
  size_t num_reads;         // the number of fields that the op reads
  // Memory for all rows of each field that the op writes, one after the other, zeroed; NULL for a
  // field whose shape has a -1 (mr_run_allocate).
  void* const* writes;
  size_t num_writes;    // the number of fields that the op writes
  const char* options;  // the text in the plan
  mr_run* run;          // for the calls below
} mr_run_view;

// An op on runs of samples. Workers call it, several at once and on different runs; it must not
// call the loader but for mr_loader_cancel. The result of a row must depend on the row alone, never
// on how rows are grouped into runs.
typedef struct mr_run_op {
  size_t struct_size;
  // Returns NULL, or an error of mr_error_create. Where a run has several rows, the op is then
  // called for each row alone, so that the error is that of the row.
  mr_error* (*apply)(void* user, const mr_run_view* run);
  void* user;
  // Called once, when `apply` will not be called any more, also if mr_ops_register_run fails behind
  // the check of the struct. May be NULL.
  void (*destroy)(void* user);
  const char* const* reads;  // the names of the fields that the op reads
  size_t num_reads;
  const mr_field* const* writes;  // the fields that it writes, new ones or instead of old ones
  size_t num_writes;
  const char* const* removes;  // the names of the fields that samples lose
  size_t num_removes;
  int64_t preferred_rows;  // for speed only: the rows that the op would rather get at once; 0: 1
} mr_run_op;
// Adds an op, as mr_ops_register_batch does. The struct is copied, with all it points at but user.
//   MR_INVALID_ARGUMENT  also if a field is named twice, or is none
MR_API mr_error* mr_ops_register_run(mr_ops* ops, const char* name, uint32_t version,
                                     const mr_run_op* op);
// Writes the value of a row of field number `field` that the op reads.
//   MR_OUT_OF_RANGE         there is no such field or row
//   MR_FAILED_PRECONDITION  the row has failed, so that it has no value
MR_API mr_error* mr_run_value(const mr_run* run, size_t field, int64_t row, mr_tensor* value);
// Writes where the op puts the value of a row of field number `field` that it writes, if the
// declared shape of the field has a -1. The memory is not initialised.
//   MR_INVALID_ARGUMENT  the field's declared shape does not admit this one, or has no -1
//   MR_OUT_OF_RANGE      there is no such field or row
MR_API mr_error* mr_run_allocate(mr_run* run, size_t field, int64_t row, const int64_t* shape,
                                 int32_t rank, void** data);
// Makes `error` that of a row, and frees it. Rows that failed need not be written. One of code
// MR_DATA_LOSS is damage, as the plan's on_damage treats it; others end the stream.
MR_API void mr_run_fail(mr_run* run, int64_t row, mr_error* error);
// Writes the first `words_per_row` random words of each of `num_rows` rows from `row` on. They are
// the same in a world of any size, for any number of threads, and after resuming.
MR_API void mr_run_random(const mr_run* run, int64_t row, int64_t num_rows, uint32_t* words,
                          size_t words_per_row);

// ---- Loader ----

typedef struct mr_open_options {
  size_t struct_size;
  int32_t rank;                 // the rank, whose rows of every global batch the loader reads
  int32_t world;                // the number of ranks; 0: 1
  const void* token;            // the token behind which the stream goes on; NULL: from the start
  size_t token_bytes;           // the size of the token
  const char* quarantine_file;  // the file to which damaged records are appended; NULL: none
  int32_t force_resume;         // true if a token of another plan or of other data is accepted
  // For speed only: the batches are the same for every value.
  int32_t prefetch_batches;  // the number of batches made ahead; 0: as the plan says
  int32_t cpu_budget;        // the most workers at a time; 0: as the plan says
  int32_t no_adapt;          // true if it uses no fewer workers and batches while fewer would do
  const char* index_folder;  // the folder of indexes; NULL: the cache folder
  // Called now and then while files are walked or inflated, by any thread, but by one at a time,
  // until the call that got it returns. It must not call Millrace. May be NULL.
  void (*index_progress)(void* user, int64_t done_bytes, int64_t total_bytes);
  void* index_user;
  const mr_push* push;  // the source of a plan that begins with push {}; else NULL
  // The records of memory stages: memory[i] is that of the stage named memory_names[i], which is
  // "memory" where the plan gives no name. Both may be NULL if num_memory is 0.
  const char* const* memory_names;
  const mr_memory* const* memory;
  size_t num_memory;
  const mr_ops* ops;  // the ops of custom stages; may be NULL
  // For speed only: true if batches lie in page-locked memory, from which CUDA device number
  // `pinned_device` copies without holding up the host. Without its driver they lie in ordinary
  // memory, and the log says why.
  int32_t pinned;
  int32_t pinned_device;
  // Ends the call that opens, until it returns; then there is mr_loader_cancel. May be NULL.
  const mr_cancel* cancel;
  const struct mr_http_options* http;  // how URLs are read (millrace_options.h); may be NULL
} mr_open_options;

// Opens a plan: opens its files, makes their indexes if there are none, checks the plan against
// them, and starts to read ahead. Blocks meanwhile. `context` may be NULL for one of its own;
// `options` may be NULL.
//   MR_INVALID_ARGUMENT     the plan does not fit the data or the options
//   MR_FAILED_PRECONDITION  the token is of another plan or other data; or a forked child
//   MR_CANCELLED            mr_cancel_set was called; nothing half made is kept
//   MR_NOT_FOUND, MR_DATA_LOSS, ...  a file cannot be opened
MR_API mr_error* mr_loader_open(const mr_plan* plan, mr_context* context,
                                const mr_open_options* options, mr_loader** loader);

// The outcome of mr_loader_next.
enum mr_outcome {
  MR_FAILED = 0,    // it returned an error
  MR_BATCH = 1,     // there is a batch
  MR_END = 2,       // the stream has ended; every later call says so too
  MR_TIMED_OUT = 3  // the time has passed; the next call goes on waiting for the same batch
};

// Waits for the next batch, at most `timeout_ns` nanoseconds; below 0: without a limit. Writes an
// mr_outcome, and the batch, which the caller owns, or NULL where the outcome is another one. Both
// are written where it fails, too.
//   MR_CANCELLED            mr_loader_cancel was called
//   MR_RESOURCE_EXHAUSTED   and mr_error_retryable: the caller holds so many batches that the
//                           memory budget has no room for the next one; release some and call again
//   MR_FAILED_PRECONDITION  in a forked child
//   other                   the error at the lowest position of the stream; all batches before it
//                           were delivered, and every later call returns it again
MR_API mr_error* mr_loader_next(mr_loader* loader, int64_t timeout_ns, mr_batch** batch,
                                int32_t* outcome);
// The same without waiting: MR_TIMED_OUT if mr_loader_next would wait.
MR_API mr_error* mr_loader_try_next(mr_loader* loader, mr_batch** batch, int32_t* outcome);
// Makes the mr_loader_next under way, and every later one, MR_CANCELLED. Any thread may call it,
// also from a callback, while the loader is not freed. Never blocks for long.
MR_API void mr_loader_cancel(mr_loader* loader);

// Writes the state of the stream: behind the batch delivered last, or where the stream began. It is
// what mr_batch_token says of that batch.
MR_API mr_error* mr_loader_save(const mr_loader* loader, mr_sink sink, void* user);
// Moves the stream behind the batch that the token came from; stops and awaits the work under way.
// Batches stay valid. May be called behind an error or the end of the stream, too.
//   MR_INVALID_ARGUMENT     not a token of this stream; the stream goes on where it was
//   MR_FAILED_PRECONDITION  a token of another plan or of other data, or a source that cannot be
//                           read again
//   MR_CANCELLED            mr_loader_cancel was called
MR_API mr_error* mr_loader_restore(mr_loader* loader, const void* token, size_t token_bytes);
// Moves the stream in front of batch number `batch`, in the same way.
//   MR_INVALID_ARGUMENT     the stream has fewer batches
//   MR_FAILED_PRECONDITION  a stage looks at samples to decide how many there are, so that only a
//                           token says where a batch begins; or as for mr_loader_restore
MR_API mr_error* mr_loader_seek(mr_loader* loader, uint64_t batch);

// How many batches a stream has.
typedef struct mr_length {
  size_t struct_size;
  int32_t infinite;            // true if the plan repeats for ever
  int32_t known;               // true if the two numbers below are known; else they are 0
  uint64_t batches;            // the number of batches of the whole stream
  uint64_t batches_per_epoch;  // the number of batches of an epoch; 0: batches straddle epochs
} mr_length;
MR_API mr_error* mr_loader_length(const mr_loader* loader, mr_length* length);

// Calls `visit` for each field of the batches, in the order of their tensors, before it returns.
MR_API mr_error* mr_loader_schema(const mr_loader* loader,
                                  void (*visit)(void* user, const mr_field* field), void* user);

// Calls `visit` with the file, offset and ordinal of a sample's record, before it returns. The
// texts live during the call. `id` is of a valid row of a batch of this loader.
//   MR_OUT_OF_RANGE  the source has fewer records
MR_API mr_error* mr_loader_locate(const mr_loader* loader, const mr_sample_id* id,
                                  void (*visit)(void* user, const mr_record* record), void* user);

// Cancels the loader, waits for the work under way, and gives it back. Batches stay valid. No other
// call of this loader may be under way, mr_loader_cancel included.
MR_API void mr_loader_free(mr_loader* loader);

// ---- Batch ----

// A batch is counted: mr_loader_next returns one that counts 1, and its memory is used again when
// the count is 0.

typedef struct mr_info {
  size_t struct_size;
  uint64_t index;             // the number of the global batch, from 0 over all epochs
  uint64_t epoch;             // the number of the epoch of its first row
  int64_t rows;               // the rows of every tensor, padding included; the same on every rank
  int64_t valid_rows;         // the rows that hold samples
  int64_t global_valid_rows;  // the same over all ranks: the divisor of a mean loss
  int64_t first_global_row;   // the number of row 0 within the global batch
  int32_t ends_epoch;         // true if the epoch changes, or the stream ends, behind it
  int32_t num_tensors;
  int64_t num_damaged;  // the damaged samples of this rank's rows
} mr_info;
MR_API mr_error* mr_batch_info(const mr_batch* batch, mr_info* info);

// Writes tensor number `index`.
//   MR_OUT_OF_RANGE  there are fewer
MR_API mr_error* mr_batch_tensor(const mr_batch* batch, size_t index, mr_tensor* tensor);

// Writes the shape of the value of row number `row` of tensor number `index`: the number of extents
// into `rank`, and the extents into `shape`, which has room for MR_MAX_RANK. The shape is smaller
// than that of the tensor if the value is padded. The tensor of a ragged field has the values of
// all rows one after the other; the next tensor, "NAME/row_splits", int64[rows + 1], says where
// each begins.
//   MR_OUT_OF_RANGE  there are fewer tensors or rows
MR_API mr_error* mr_batch_row_shape(const mr_batch* batch, size_t index, int64_t row,
                                    int64_t* shape, int32_t* rank);

// Returns a byte per row: 1 for a sample, 0 for padding, whose bytes are all 0. It lives as long as
// the batch. NULL for NULL.
MR_API const uint8_t* mr_batch_valid(const mr_batch* batch);

// Returns an id per row, zero for padding. It lives as long as the batch. NULL for NULL.
MR_API const mr_sample_id* mr_batch_ids(const mr_batch* batch);

// Writes the damaged sample number `index`, where the plan goes on in spite of damage: the row that
// is empty because of it or holds another sample instead, its id, and the error, which the caller
// owns. Each of the three may be NULL.
//   MR_OUT_OF_RANGE  there are fewer (mr_info)
MR_API mr_error* mr_batch_damaged(const mr_batch* batch, size_t index, int64_t* row,
                                  mr_sample_id* id, mr_error** error);

// Returns the token from which a loader of the same plan and data goes on behind this batch, in a
// world of any size, and writes its size. It is followed by a zero byte, and lives as long as the
// batch. NULL for NULL.
MR_API const char* mr_batch_token(const mr_batch* batch, size_t* size);

// Makes the tensor number `index` a DLPack tensor (version 1.0, dlpack.h) on the CPU that shares
// the memory of the batch and counts as one of its holders. The caller owns it, and ends it by its
// deleter, in any thread.
//   MR_OUT_OF_RANGE  there are fewer tensors
struct DLManagedTensorVersioned;
MR_API mr_error* mr_batch_dlpack(const mr_batch* batch, size_t index,
                                 struct DLManagedTensorVersioned** tensor);

// Writes the batch as a record batch of Arrow's C data interface, into structs of the caller, who
// ends each by its `release`, in any thread. They share the memory of the batch and count as its
// holders. Each field is a column. The elements of its rows are lists of fixed size where they have
// extents, and large lists where the field is ragged. Rows that are padding are null.
//   MR_UNIMPLEMENTED  a field is bfloat16, which Arrow does not have
struct ArrowArray;
struct ArrowSchema;
MR_API mr_error* mr_batch_arrow(const mr_batch* batch, struct ArrowArray* array,
                                struct ArrowSchema* schema);

// Adds 1 to the count, and returns the batch.
MR_API mr_batch* mr_batch_retain(mr_batch* batch);
// Takes 1 from the count.
MR_API void mr_batch_release(mr_batch* batch);

// ---- Writing, converting ----

typedef struct mr_writer mr_writer;
typedef struct mr_writer_options {
  size_t struct_size;
  const char* prefix;  // shards are PREFIX-00000-of-00008.tfrecord; the folder is made
  // "none", "gzip", "zlib" or "zstd"; NULL: "none". The names of shards do not change.
  const char* compression;
  int32_t compression_level;  // 1 to 9, of gzip, zlib and zstd; 0: 6
  int32_t shards;             // 1 to 99999, at most one per record; 0: 1
  int32_t overwrite;          // true to replace the shards of this prefix that exist
  int32_t reserved;           // 0
} mr_writer_options;

// Makes a writer of TFRecord shards. They appear all at once in mr_writer_close, with
// PREFIX.manifest.json, or not at all. Shard s of N gets the block from s * n / N up to
// (s + 1) * n / N of n records, as `millrace records convert` cuts them: reading the shards one
// after the other gives the records in their order. Records of several shards wait in a hidden file
// beside the shards, which takes as much room on the disk as they do. A writer is used by one
// thread at a time.
//   MR_INVALID_ARGUMENT  a bad option
//   MR_ALREADY_EXISTS    shards of this prefix exist, and `overwrite` is false
//   MR_NOT_FOUND, MR_PERMISSION_DENIED, ...  nothing can be written there
MR_API mr_error* mr_writer_open(const mr_writer_options* options, mr_writer** writer);

// Appends a copy of a record of `size` bytes.
//   MR_FAILED_PRECONDITION  mr_writer_close was called; or in a forked child
//   other                   it cannot be written; later calls return this error too
MR_API mr_error* mr_writer_write(mr_writer* writer, const void* record, size_t size);

// A feature of a tf.train.Example. Not a struct with a size: it never changes.
typedef struct mr_feature {
  const char* name;
  int32_t dtype;        // MR_BYTES (bytes_list), MR_INT64 (int64_list) or MR_FLOAT32 (float_list)
  int32_t reserved;     // 0
  size_t num_values;    // may be 0
  const void* values;   // int64_t[], float[], or for MR_BYTES void*[], one to each value
  const size_t* sizes;  // the sizes of values of MR_BYTES, in bytes; else not looked at
} mr_feature;

// Appends a tf.train.Example of these features, in their order.
//   MR_INVALID_ARGUMENT  a feature without a name, or named twice; a name that is not UTF-8;
//                        another dtype; values or sizes are NULL; an Example of 2 GiB
//   else as mr_writer_write
MR_API mr_error* mr_writer_write_example(mr_writer* writer, const mr_feature* features,
                                         size_t num_features);

// Is told how many of the records are done; returns true to cancel the call to which it was given.
// It is called by the thread that made that call, before it returns.
typedef int32_t (*mr_progress)(void* user, int64_t done, int64_t total);

// Cuts the shards, and moves them into place. `progress` is called after each record that is cut
// off, never for a single shard; it may be NULL. Called once: behind it the writer can only be
// freed. Where it fails, nothing has changed under the names of the shards.
//   MR_INVALID_ARGUMENT     more shards than records
//   MR_ALREADY_EXISTS       shards of this prefix have come meanwhile, and `overwrite` is false
//   MR_CANCELLED            `progress` returned true
//   MR_FAILED_PRECONDITION  it was called before; or in a forked child
//   other                   the error of mr_writer_write, or a file cannot be written
MR_API mr_error* mr_writer_close(mr_writer* writer, mr_progress progress, void* user);
// Gives the writer back. Without an mr_writer_close that succeeded it leaves nothing behind.
MR_API void mr_writer_free(mr_writer* writer);

// A conversion, with the flags of `millrace records convert` as fields: docs/convert.md says what
// each means, and which go together. Texts may be NULL where the flag need not be given.
typedef struct mr_convert_options {
  size_t struct_size;
  const char* from;          // "tfrecord", "text", "fixed_length", "csv", "jsonl", "tar", "idx" or
                             // "images"
  const char* to;            // the same; NULL: "tfrecord"
  const char* const* files;  // the input, but for idx and images: files, patterns, URLs
  size_t num_files;
  const char* images;    // the IDX file of images, the folder of images, or the tar of them
  const char* labels;    // the IDX file of labels; NULL: named as the images are
  const int64_t* label;  // the label of images whose names give no class; NULL: none
  const char* classes;   // the file with the names of classes
  const char* prefix;    // the prefix of the shards' paths; the folder is made
  const char* suffix;    // the ending of the shards' names; NULL: that of the format
  const char* input_compression;  // "none", "gzip", "zlib" or "zstd"; NULL: by the first bytes
  const char* compression;        // of the shards; NULL: "none"
  const char* delimiter;          // the byte between columns of csv that is read; NULL: ","
  uint64_t record_bytes;          // of fixed_length that is read
  uint64_t header_bytes;
  uint64_t footer_bytes;
  const char* schema;               // "NAME:DTYPE,..."
  const char* feature;              // the feature that holds a record of text or fixed_length
  const char* features;             // the features to copy: "NAME" or "NAME=NEW", with commas
  const char* image_feature;        // the feature that holds the image
  const char* image_encoding;       // "jpeg" or "raw"
  const char* write_mode;           // "raw", "jpg", "smart" or "proportion"
  const char* check_images;         // "header" or "decode"
  const char* on_damage;            // "fail" or "skip"; NULL: "fail"
  const char* quarantine_file;      // the file to which records that cannot be converted are added
  int64_t max_resolution;           // 0: images are not shrunk
  int64_t min_resolution;           // 0: images are not shrunk
  const uint64_t* smart_threshold;  // of write_mode smart
  const double* compress_probability;  // of write_mode proportion; NULL: 0.5
  const uint64_t* write_seed;          // of write_mode proportion; NULL: 0
  const uint64_t* shuffle;             // the seed that shuffles the records; NULL: their order
  int32_t shards;                      // 0: 1
  int32_t compression_level;           // 1 to 9; 0: 6
  int32_t jpeg_quality;                // 0: not given
  int32_t has_header;                  // true if the first row of csv that is read names columns
  int32_t allow_nan;                   // true if NaN and Infinity are numbers of jsonl that is read
  int32_t strict;                      // true if images of kinds that are not read are an error
  int32_t upright;                     // true to turn images as their EXIF orientation says
  int32_t overwrite;                   // true to replace the shards of this prefix that exist
  // For speed only.
  int32_t threads;           // that read and encode; 0: all usable cores
  int32_t reserved;          // 0
  const char* index_folder;  // the folder of indexes; NULL: the cache folder
  // Callbacks; each may be NULL. They get `user`, and must call nothing but what reads an error.
  void* user;
  // Called while files are walked or inflated, by any thread, but by one at a time.
  void (*index_progress)(void* user, int64_t done_bytes, int64_t total_bytes);
  // Called after each record, and behind the first one ten times a second and more while none is
  // done; not while files are opened and walked, for which there is `cancel`.
  mr_progress progress;
  // Takes a sentence about what is left out or looks odd.
  mr_sink warn;
  // Takes the error of each record that cannot be converted, in their order. It is not to be freed.
  void (*bad_record)(void* user, const mr_error* error);
  const mr_cancel* cancel;  // ends the conversion; may be NULL
} mr_convert_options;

typedef struct mr_convert_report {
  size_t struct_size;
  uint64_t records;          // in the shards
  uint64_t left_out;         // that could not be converted
  uint64_t images_not_read;  // images of other kinds than JPEG and PNG
  uint64_t file_bytes;       // of all shards
} mr_convert_report;

// Converts records of one container into shards of another, which appear all at once or not at all.
// PREFIX.manifest.json names them, their classes and columns. Blocks; fails before anything is
// written if records cannot be converted, unless `on_damage` says else. The same
// conversion takes over the shards of one that was killed or cancelled. `report` may be NULL.
//   MR_INVALID_ARGUMENT  a bad option, or one that does not apply; more shards than records; the
//                        output cannot hold a record
//   MR_ALREADY_EXISTS    shards of this prefix exist, and `overwrite` is false
//   MR_CANCELLED         `progress` returned true, or mr_cancel_set was called
//   MR_NOT_FOUND, MR_DATA_LOSS, ...  the input is missing or damaged, or a file cannot be written
MR_API mr_error* mr_convert(const mr_convert_options* options, mr_convert_report* report);

// ---- Explain, launchers ----

// Writes the text of `millrace explain`: the plan, the rules that were applied to it, and what the
// opened files hold. `context` and `options` may be NULL; with rank -1 the files stay closed.
//   the errors of mr_loader_open
MR_API mr_error* mr_explain(const mr_plan* plan, mr_context* context,
                            const mr_open_options* options, mr_sink sink, void* user);

// This process as its launcher describes it.
typedef struct mr_launcher {
  size_t struct_size;
  int32_t rank;        // 0 where there is no launcher
  int32_t world;       // the ranks of the job; 0: not known
  int32_t local_size;  // the ranks on this host; 0: not known
  int32_t found;       // true if a launcher was found
} mr_launcher;
// Looks for the variables of torchrun, Open MPI, MPICH, PMIx, Slurm, TF_CONFIG and Kubernetes in
// the environment, and writes which rank this process is. `source` gets where that was found, such
// as "OMPI_COMM_WORLD_SIZE=2"; it may be NULL. No other thread may change the environment
// meanwhile.
//   MR_INVALID_ARGUMENT, MR_FAILED_PRECONDITION  the variables are malformed or disagree
MR_API mr_error* mr_detect_launcher(mr_launcher* launcher, mr_sink source, void* user);

// Runs the command line of the program `millrace` and returns its exit code: the commands on data
// (records, explain, run, show, audit), without those that start jobs (bench, train). For a process
// that does nothing else, once: it prints, and sets limits of the process. `argv` is that of main,
// with argc + 1 pointers.
MR_API int mr_main(int argc, char** argv);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // MILLRACE_CAPI_MILLRACE_H_

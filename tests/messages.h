#ifndef MILLRACE_TESTS_MESSAGES_H_
#define MILLRACE_TESTS_MESSAGES_H_

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// The texts of messages, in one file per folder of tests.
//
// Texts are for people and not part of an interface. A test asserts an error's code and RecordError
// itself, and says EXPECT_MESSAGE(status) where the text matters: that compares it with a line of
// tests/FOLDER/messages.golden, where all texts of a folder can be read and reviewed together:
//
//   Suite.Case#1 INVALID_ARGUMENT crop: height x width is 0 x 0; expected 1 to 65536 each
//   Suite.Case#2 - 3 shards, 1 damaged
//   Suite.Case#short DATA_LOSS {tmp}/a.tar: at offset 512: the header is cut off
//
// The number counts the EXPECT_MESSAGEs of a case that have no key of their own, and "-" is the
// code of a text without a status. A key contains no space and begins with no digit; messages of
// the same key must be equal. All instances of a parameterised or typed test share the lines of
// their case, so messages that differ from instance to instance need keys.
//
// Parts that differ from run to run are replaced: a folder that mkdtemp made in the folder for
// temporary files by {tmp}, the root of the tree by {source}, the port of an address on this host
// by {port}, this process' number behind "process" or "pid" by {pid}, and a text that
// HideInMessages names by that name.
//
// With MILLRACE_UPDATE_MESSAGES=1 in the environment texts are not compared: the lines of the cases
// that ran are written anew, unless a code differs (the value "codes" writes those too). Programs
// that run at the same time wait for each other. A line that no test claims any more is reported
// when its case has run, and by tests/house/check_messages.py.

namespace millrace::messages {

// A text, and the code of the status whose it is.
struct Message {
  Message(const absl::Status& status)  // NOLINT: all of these are messages
      : code(status.code()), text(std::string(status.message())) {}
  template <typename T>
  Message(const absl::StatusOr<T>& result) : Message(result.status()) {}  // NOLINT
  Message(std::string_view just_text) : text(just_text) {}                // NOLINT
  Message(const std::string& just_text) : text(just_text) {}              // NOLINT
  Message(const char* just_text) : text(just_text) {}                     // NOLINT
  Message(std::optional<absl::StatusCode> of, std::string what) : code(of), text(std::move(what)) {}

  std::optional<absl::StatusCode> code;  // none: a text alone
  std::string text;
};

// What EXPECT_MESSAGE calls. `file` is the test's __FILE__; thread-safe, but the numbers are those
// of the order of the calls.
::testing::AssertionResult Check(const char* file, const Message& message,
                                 std::string_view key = "");
::testing::AssertionResult Check(const char* file, const Message& message, absl::StatusCode code,
                                 std::string_view key = "");

// In the rest of the test case, `text` stands as {name} in messages.
void HideInMessages(std::string_view text, std::string_view name);

// --- For tests of this file ---

// The lines of a file: the id ("Suite.Case#key") and the rest of each.
using Lines = std::map<std::string, std::string>;
Lines ParseLines(std::string_view text);
// Sorted by case, then by number, then by key.
std::string FormatLines(const Lines& lines);
// What runs differ in replaced, and control characters and backslashes escaped, so that it is one
// line.
std::string OneLine(std::string_view text);
// A line without its id.
std::string ValueOf(const Message& message);
// The folder of tests that `file` lies in: "base" for ".../tests/base/work/workers_test.cc".
std::string FolderOf(std::string_view file);
// Replaces lines of the file by `ran`: all lines of the cases in `cases`, and single lines of the
// others. Holds a lock on the file meanwhile. Returns what went wrong, or "".
std::string UpdateFile(const std::string& path, const Lines& ran,
                       const std::vector<std::string>& cases);

}  // namespace millrace::messages

// EXPECT_MESSAGE(status or text [, code] [, "key"]): `status` is no success, has the `code`, and
// its text is the one in tests/FOLDER/messages.golden.
#define EXPECT_MESSAGE(...)                                      \
  GTEST_AMBIGUOUS_ELSE_BLOCKER_                                  \
  if (const ::testing::AssertionResult result_of_message_check = \
          ::millrace::messages::Check(__FILE__, __VA_ARGS__))    \
    ;                                                            \
  else                                                           \
    ADD_FAILURE() << result_of_message_check.message()

#endif  // MILLRACE_TESTS_MESSAGES_H_

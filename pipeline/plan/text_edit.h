#ifndef MILLRACE_PIPELINE_PLAN_TEXT_EDIT_H_
#define MILLRACE_PIPELINE_PLAN_TEXT_EDIT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/plan/text_variables.h"

// Changes of values in the text of a file that leave every other byte where it is: comments, order,
// line ends, the way brackets are written.

namespace millrace::pipeline {

// A field that a message is to get.
struct NewField {
  std::string text;  // "threads: 4"
  std::string comment;
};

// Returns `text` as a field's value is written.
std::string Quoted(std::string_view text);

// Places of fields are those of TextLocations::Find. Comments have no line end; of several that are
// for one line, and of one that is there already, all are kept. Thread-compatible.
class TextEdit {
 public:
  // REQUIRES: the text parses with these variables.
  TextEdit(std::string_view file, std::map<std::string, std::string> variables);

  // Replaces the number of the field whose name is at `name`. Where it is the default of a
  // variable, that changes; where it is given to one, the variable's value in variables() does, and
  // the text stays.
  void SetNumber(size_t name, uint64_t value, const std::string& comment);
  // Replaces the text of the field whose name is at `name`. Returns false, and changes nothing, if
  // a variable is a part of it.
  bool SetText(size_t name, std::string_view value, const std::string& comment);
  // Adds fields at the end of the message whose field's name is at `name`.
  void AddFields(size_t name, const std::vector<NewField>& fields);
  // Adds lines at the end of the file.
  void AddLines(const std::vector<std::string>& lines);

  // Returns the text with all changes.
  std::string Text() const;
  const std::map<std::string, std::string>& variables() const { return variables_; }

 private:
  // A stretch of the normalized text that is replaced.
  struct Patch {
    size_t begin = 0;
    size_t end = 0;
    std::string text;
  };

  size_t CloserOf(size_t opener) const;
  size_t EndInOriginal(size_t end) const;
  size_t LineOf(size_t at) const;
  size_t LineBegin(size_t original) const;
  void Comment(size_t at, const std::string& comment);
  void FindComments();
  std::vector<Patch> PatchesWithComments() const;

  const size_t mark_bytes_;     // of the byte order mark
  const std::string file_;      // without it
  const std::string original_;  // the same, with normalized line ends
  const SubstitutedText parsed_;
  const std::string line_end_;  // the file's first
  std::map<std::string, std::string> variables_;
  std::set<size_t> commented_;  // numbers of the lines that end with a comment, from 0
  std::vector<Patch> patches_;  // in the order of the calls
  std::map<size_t, std::vector<std::string>> comments_;  // by line
  std::string tail_;                                     // lines at the end
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PLAN_TEXT_EDIT_H_

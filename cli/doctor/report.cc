#include "cli/doctor/report.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/doctor/host.h"

namespace millrace::cli::doctor {
namespace {

using Json = nlohmann::ordered_json;

const char* VerdictText(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "OK";
    case Verdict::kWarn:
      return "WARN";
    case Verdict::kFail:
      return "FAIL";
    case Verdict::kSkip:
      return "SKIP";
  }
  return "";
}

std::string Plural(int number, const char* thing) {
  return absl::StrCat(number, " ", thing, number == 1 ? "" : "s");
}

constexpr size_t kIndent = 22;  // columns before a finding
constexpr size_t kColumns = 100;

// The words of `text` in lines of at most kColumns, where a word is not longer. The first begins
// behind `before` columns, the others behind kIndent and three more.
std::string Wrapped(std::string_view text, size_t before) {
  const std::string indent(kIndent + 3, ' ');
  std::string lines;
  size_t columns = before;
  for (const std::string& word : WordsOf(text)) {
    const bool begins = lines.empty();
    if (!begins && columns + 1 + word.size() > kColumns) {
      absl::StrAppend(&lines, "\n", indent, word);
      columns = indent.size() + word.size();
    } else {
      absl::StrAppend(&lines, begins ? "" : " ", word);
      columns += word.size() + (begins ? 0 : 1);
    }
  }
  return lines + "\n";
}

Json JsonOfFinding(const Finding& finding) {
  Json json{{"verdict", VerdictText(finding.verdict)},
            {"check", finding.what},
            {"finding", finding.found},
            {"mend", finding.mend},
            {"details", finding.details},
            {"numbers", Json::object()}};
  for (const Number& number : finding.numbers) json["numbers"][number.name] = number.value;
  return json;
}

}  // namespace

Counts Count(const Findings& findings) {
  Counts counts;
  for (const Finding& finding : findings) {
    switch (finding.verdict) {
      case Verdict::kOk:
        ++counts.ok;
        break;
      case Verdict::kWarn:
        ++counts.warnings;
        break;
      case Verdict::kFail:
        ++counts.failures;
        break;
      case Verdict::kSkip:
        ++counts.skipped;
        break;
    }
  }
  return counts;
}

std::string FindingsText(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    const std::string head =
        absl::StrFormat("%-4s  %-14s  ", VerdictText(finding.verdict), finding.what);
    absl::StrAppend(&text, head, Wrapped(finding.found, head.size()));
    for (const std::string& line : finding.details) {
      absl::StrAppend(&text, std::string(kIndent, ' '), line, "\n");
    }
    if (finding.mend.empty()) continue;
    absl::StrAppend(&text, std::string(kIndent, ' '), "-> ", Wrapped(finding.mend, kIndent + 3));
  }
  const Counts counts = Count(findings);
  absl::StrAppend(&text, counts.ok, " ok, ", Plural(counts.warnings, "warning"), ", ",
                  Plural(counts.failures, "failure"), ", ", counts.skipped, " skipped\n");
  return text;
}

std::string FindingsJson(const Findings& findings) {
  const Counts counts = Count(findings);
  Json json{{"ok", counts.ok},
            {"warnings", counts.warnings},
            {"failures", counts.failures},
            {"skipped", counts.skipped},
            {"checks", Json::array()}};
  for (const Finding& finding : findings) json["checks"].push_back(JsonOfFinding(finding));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace millrace::cli::doctor

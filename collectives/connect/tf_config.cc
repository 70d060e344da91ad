// TF_CONFIG, as TensorFlow's multi-worker strategies read it:
//   {"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"]},
//    "task": {"type": "worker", "index": 0}}
// The chief is rank 0, workers follow by index. Parameter servers and evaluators train nothing
// here.
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/connect/launcher_sources.h"

namespace millrace::collectives {
namespace {

using nlohmann::json;

constexpr size_t kMaxTasks = 1 << 24;

absl::Status Malformed(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("TF_CONFIG: ", ToAbsl(what)));
}

absl::StatusOr<json> Parse(const std::string& text) {
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    return Malformed(absl::StrCat("no JSON from byte ", error.byte, " on: ", error.what()));
  } catch (const json::exception& error) {  // a number that no double holds
    return Malformed(error.what());
  }
}

// Of a list or an object only that it is one: it may be deeper than the stack.
std::string Text(const json& value) {
  if (value.is_structured()) return value.type_name();
  return value.dump(-1, ' ', true, json::error_handler_t::replace);
}

// The member `name`, or null.
const json& Member(const json& object, const char* name) {
  static const json& none = *new json;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

// Addresses of the tasks of `type`; none where the cluster has no such tasks.
absl::StatusOr<std::vector<std::string>> Tasks(const json& cluster, const char* type) {
  std::vector<std::string> tasks;
  const json& list = Member(cluster, type);
  if (list.is_null()) return tasks;
  if (!list.is_array() || list.size() > kMaxTasks) {
    return Malformed(absl::StrCat("cluster.", type, " is no list of addresses"));
  }
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_string() || list[i].get_ref<const std::string&>().empty()) {
      return Malformed(absl::StrCat("cluster.", type, "[", i, "] is no address"));
    }
    tasks.push_back(list[i].get<std::string>());
  }
  return tasks;
}

absl::StatusOr<Launcher> Place(const json& config) {
  const json& cluster = Member(config, "cluster");
  const json& task = Member(config, "task");
  if (cluster.is_null() && task.is_null()) return Launcher{};  // {}: TensorFlow's "no cluster"
  if (!cluster.is_object()) return Malformed("cluster is no object");
  if (!task.is_object()) return Malformed("task is no object");
  const json& type = Member(task, "type");
  const json& index = Member(task, "index");
  if (type != "chief" && type != "worker") {
    return Malformed(absl::StrCat("task.type is ", Text(type), "; only chief and worker train"));
  }
  // Some write "0".
  int64_t number = -1;
  if (index.is_number_integer()) number = index.get<int64_t>();
  if (index.is_string() && !absl::SimpleAtoi(index.get_ref<const std::string&>(), &number))
    number = -1;
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> chiefs, Tasks(cluster, "chief"));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> workers, Tasks(cluster, "worker"));
  if (chiefs.size() > 1)
    return Malformed(absl::StrCat("cluster.chief has ", chiefs.size(), " tasks"));
  const size_t of_type = type == "chief" ? chiefs.size() : workers.size();
  if (number < 0 || static_cast<uint64_t>(number) >= of_type) {
    return Malformed(absl::StrCat("task.index ", Text(index), " is none of the ", of_type,
                                  " tasks of cluster.", type.get_ref<const std::string&>()));
  }
  Launcher launcher;
  launcher.kind = LauncherKind::kTfConfig;
  launcher.size = static_cast<int>(chiefs.size() + workers.size());
  launcher.rank = static_cast<int>(number + (type == "worker" ? chiefs.size() : 0));
  launcher.source = absl::StrCat("TF_CONFIG of ", launcher.size, " tasks");
  launcher.rendezvous = absl::StrCat("tcp:", chiefs.empty() ? workers[0] : chiefs[0]);
  return launcher;
}

}  // namespace

absl::StatusOr<Launcher> ReadTfConfig(const EnvLookup& lookup) {
  const std::optional<std::string> text = lookup("TF_CONFIG");
  if (!text || text->empty()) return Launcher{};
  MILLRACE_ASSIGN_OR_RETURN(const json config, Parse(*text));
  if (!config.is_object()) return Malformed("it is no object");
  return Place(config);
}

}  // namespace millrace::collectives

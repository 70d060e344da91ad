// TF_CONFIG, as TensorFlow's multi-worker strategies read it:
//   {"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"]},
//    "task": {"type": "worker", "index": 0}}
// The chief is rank 0, workers follow by index. Evaluators train nothing; parameter servers do
// where a program has them.
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

// The cluster's tasks that train, and this process's place among them.
struct Tasked {
  std::vector<std::string> chiefs;
  std::vector<std::string> workers;
  std::vector<std::string> servers;
  std::string type;  // of this process; empty: the configuration names no cluster
  size_t index = 0;  // among the tasks of the type

  // The number of a chief or worker among both.
  size_t worker() const { return index + (type == "worker" ? chiefs.size() : 0); }
};

absl::StatusOr<size_t> IndexOf(const json& index, const std::string& type, size_t tasks) {
  // Some write "0".
  int64_t number = -1;
  if (index.is_number_integer()) number = index.get<int64_t>();
  if (index.is_string() && !absl::SimpleAtoi(index.get_ref<const std::string&>(), &number))
    number = -1;
  if (number >= 0 && static_cast<uint64_t>(number) < tasks) return static_cast<size_t>(number);
  return Malformed(absl::StrCat("task.index ", Text(index), " is none of the ", tasks,
                                " tasks of cluster.", type));
}

// `takes_servers`: true if a task of type "ps" is one that trains.
absl::StatusOr<Tasked> Place(const json& config, bool takes_servers) {
  Tasked tasked;
  const json& cluster = Member(config, "cluster");
  const json& task = Member(config, "task");
  if (cluster.is_null() && task.is_null()) return tasked;  // {}: TensorFlow's "no cluster"
  if (!cluster.is_object()) return Malformed("cluster is no object");
  if (!task.is_object()) return Malformed("task is no object");
  const json& type = Member(task, "type");
  if (type != "chief" && type != "worker" && !(takes_servers && type == "ps")) {
    return Malformed(absl::StrCat("task.type is ", Text(type), "; only chief",
                                  takes_servers ? ", worker and ps" : " and worker", " train"));
  }
  MILLRACE_ASSIGN_OR_RETURN(tasked.chiefs, Tasks(cluster, "chief"));
  MILLRACE_ASSIGN_OR_RETURN(tasked.workers, Tasks(cluster, "worker"));
  MILLRACE_ASSIGN_OR_RETURN(tasked.servers, Tasks(cluster, "ps"));
  if (tasked.chiefs.size() > 1)
    return Malformed(absl::StrCat("cluster.chief has ", tasked.chiefs.size(), " tasks"));
  tasked.type = type.get<std::string>();
  const size_t tasks = tasked.type == "chief"    ? tasked.chiefs.size()
                       : tasked.type == "worker" ? tasked.workers.size()
                                                 : tasked.servers.size();
  MILLRACE_ASSIGN_OR_RETURN(tasked.index, IndexOf(Member(task, "index"), tasked.type, tasks));
  return tasked;
}

absl::StatusOr<json> Config(const EnvLookup& lookup) {
  const std::optional<std::string> text = lookup("TF_CONFIG");
  if (!text || text->empty()) return json::object();
  MILLRACE_ASSIGN_OR_RETURN(json config, Parse(*text));
  if (!config.is_object()) return Malformed("it is no object");
  return config;
}

}  // namespace

absl::StatusOr<Launcher> ReadTfConfig(const EnvLookup& lookup) {
  MILLRACE_ASSIGN_OR_RETURN(const json config, Config(lookup));
  MILLRACE_ASSIGN_OR_RETURN(const Tasked tasked, Place(config, /*takes_servers=*/false));
  Launcher launcher;
  if (tasked.type.empty()) return launcher;
  launcher.kind = LauncherKind::kTfConfig;
  launcher.size = static_cast<int>(tasked.chiefs.size() + tasked.workers.size());
  launcher.rank = static_cast<int>(tasked.worker());
  launcher.source = absl::StrCat("TF_CONFIG of ", launcher.size, " tasks");
  launcher.rendezvous =
      absl::StrCat("tcp:", tasked.chiefs.empty() ? tasked.workers[0] : tasked.chiefs[0]);
  return launcher;
}

absl::StatusOr<std::optional<TfCluster>> ReadTfCluster(const EnvLookup& lookup) {
  MILLRACE_ASSIGN_OR_RETURN(const json config, Config(lookup));
  const json& cluster = Member(config, "cluster");
  if (!cluster.is_object() || Member(cluster, "ps").is_null()) return std::nullopt;
  MILLRACE_ASSIGN_OR_RETURN(Tasked tasked, Place(config, /*takes_servers=*/true));
  if (tasked.type.empty() || tasked.servers.empty()) return std::nullopt;
  TfCluster found;
  found.is_server = tasked.type == "ps";
  found.index = static_cast<int>(found.is_server ? tasked.index : tasked.worker());
  found.workers = std::move(tasked.chiefs);
  found.workers.insert(found.workers.end(), tasked.workers.begin(), tasked.workers.end());
  found.servers = std::move(tasked.servers);
  if (found.workers.empty()) return Malformed("the cluster has servers, but no worker");
  return found;
}

}  // namespace millrace::collectives

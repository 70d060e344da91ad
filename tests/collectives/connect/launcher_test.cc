#include "collectives/launcher.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/connect/launcher_sources.h"
#include "gmock/gmock.h"
#include "tests/messages.h"
#include "tests/sanitized.h"

namespace millrace::collectives {
namespace {

using Environment = std::map<std::string, std::string, std::less<>>;

absl::StatusOr<Launcher> Detect(const Environment& environment, const LaunchFlags& flags = {}) {
  const auto lookup = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  };
  return DetectLauncher(lookup, flags);
}

struct Found {
  std::string name;
  Environment environment;
  LauncherKind kind;
  int rank;
  int size;
  int local_size;
  std::string source;
};

class DetectsLauncher : public testing::TestWithParam<Found> {};

TEST_P(DetectsLauncher, FromItsVariables) {
  const Found& expected = GetParam();
  const absl::StatusOr<Launcher> launcher = Detect(expected.environment);
  ASSERT_TRUE(launcher.ok()) << launcher.status();
  EXPECT_EQ(launcher->kind, expected.kind);
  EXPECT_EQ(launcher->rank, expected.rank);
  EXPECT_EQ(launcher->size, expected.size);
  EXPECT_EQ(launcher->local_size, expected.local_size);
  EXPECT_EQ(launcher->source, expected.source);
}

const Environment kOpenMpi = {{"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_RANK", "3"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                              {"PMIX_RANK", "3"}};
const Environment kSrun = {{"SLURM_STEP_ID", "0"},
                           {"SLURM_STEP_NUM_TASKS", "8"},
                           {"SLURM_NTASKS", "8"},
                           {"SLURM_PROCID", "5"}};

Environment With(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) environment.insert_or_assign(name, value);
  return environment;
}

INSTANTIATE_TEST_SUITE_P(
    Table, DetectsLauncher,
    testing::Values(
        Found{"Nothing", {}, LauncherKind::kNone, 0, 1, 0, "no launcher variables"},
        Found{"OpenMpi", kOpenMpi, LauncherKind::kOpenMpi, 3, 4, 2, "OMPI_COMM_WORLD_SIZE=4"},
        Found{"OpenMpiInsideSrun", With(kOpenMpi, kSrun), LauncherKind::kOpenMpi, 3, 4, 2,
              "OMPI_COMM_WORLD_SIZE=4"},
        Found{"OpenMpiBesidePmiOfOne", With(kOpenMpi, {{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}}),
              LauncherKind::kOpenMpi, 3, 4, 2, "OMPI_COMM_WORLD_SIZE=4"},
        Found{"OpenMpiAlone",
              {{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}},
              LauncherKind::kOpenMpi,
              0,
              1,
              0,
              "OMPI_COMM_WORLD_SIZE=1"},
        Found{"Pmi",
              {{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}, {"MPI_LOCALNRANKS", "2"}},
              LauncherKind::kPmi,
              1,
              2,
              2,
              "PMI_SIZE=2"},
        Found{"Pmix", {{"PMIX_RANK", "1"}}, LauncherKind::kPmix, 1, 0, 0, "PMIX_RANK=1"},
        Found{"PmixUnderSrun", With(kSrun, {{"PMIX_RANK", "5"}}), LauncherKind::kPmix, 5, 8, 0,
              "SLURM_STEP_NUM_TASKS=8"},
        Found{"Srun", kSrun, LauncherKind::kSlurm, 5, 8, 0, "SLURM_STEP_NUM_TASKS=8"},
        Found{"OldSrun",
              {{"SLURM_STEPID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "1"}},
              LauncherKind::kSlurm,
              1,
              2,
              0,
              "SLURM_NTASKS=2"},
        Found{"SallocShell",
              {{"SLURM_NTASKS", "4"}},
              LauncherKind::kNone,
              0,
              1,
              0,
              "no launcher variables"},
        Found{"BatchScript",
              {{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}},
              LauncherKind::kNone,
              0,
              1,
              0,
              "no launcher variables"},
        Found{"InteractiveStep",
              {{"SLURM_STEP_ID", "4294967290"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}},
              LauncherKind::kNone,
              0,
              1,
              0,
              "no launcher variables"},
        Found{"BadLocalSizeIsOnlyAHint", With(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "?"}}),
              LauncherKind::kOpenMpi, 3, 4, 0, "OMPI_COMM_WORLD_SIZE=4"}),
    [](const auto& param) { return param.param.name; });

const Environment kTorchrun = {{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "node1"},
                               {"MASTER_PORT", "29500"},
                               {"TORCHELASTIC_RUN_ID", "run7"},
                               {"TORCHELASTIC_RESTART_COUNT", "2"}};
const Environment kByHand = {{"RANK", "1"}, {"WORLD_SIZE", "2"}};
const Environment kTfConfig = {
    {"TF_CONFIG",
     R"({"cluster": {"chief": ["a:1"], "worker": ["b:2", "c:3"], "ps": ["d:4"]},
         "task": {"type": "worker", "index": 1}})"}};
const Environment kKubernetes = {
    {"JOB_COMPLETION_INDEX", "2"}, {"MASTER_ADDR", "job-0.svc"}, {"MASTER_PORT", "29500"}};

INSTANTIATE_TEST_SUITE_P(
    OtherThanMpi, DetectsLauncher,
    testing::Values(
        Found{"Torchrun", kTorchrun, LauncherKind::kTorchrun, 5, 8, 4, "WORLD_SIZE=8"},
        Found{"TorchrunPerTaskOfSrun",
              With(kTorchrun,
                   {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}}),
              LauncherKind::kTorchrun, 5, 8, 4, "WORLD_SIZE=8"},
        Found{"TorchrunPerProcessOfMpirun", With(kTorchrun, kOpenMpi), LauncherKind::kTorchrun, 5,
              8, 4, "WORLD_SIZE=8"},
        Found{"ByHandAsSrunSays",
              With(kByHand,
                   {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}}),
              LauncherKind::kTorchrun, 1, 2, 0, "WORLD_SIZE=2"},
        Found{"RankAloneIsACommonWord",
              {{"RANK", "colonel"}},
              LauncherKind::kNone,
              0,
              1,
              0,
              "no launcher variables"},
        Found{"TfConfigWorker", kTfConfig, LauncherKind::kTfConfig, 2, 3, 0,
              "TF_CONFIG of 3 tasks"},
        Found{"TfConfigChief",
              {{"TF_CONFIG", R"({"cluster":{"worker":["b:2"],"chief":["a:1"]},)"
                             R"("task":{"type":"chief","index":0}})"}},
              LauncherKind::kTfConfig,
              0,
              2,
              0,
              "TF_CONFIG of 2 tasks"},
        Found{"TfConfigIndexAsText",
              {{"TF_CONFIG",
                R"({"cluster":{"worker":["a:1","b:2"]},"task":{"type":"worker","index":"1"}})"}},
              LauncherKind::kTfConfig,
              1,
              2,
              0,
              "TF_CONFIG of 2 tasks"},
        Found{"TfConfigOfNothing",
              {{"TF_CONFIG", "{}"}},
              LauncherKind::kNone,
              0,
              1,
              0,
              "no launcher variables"},
        Found{"MpiBeforeTfConfig",
              With(kOpenMpi, {{"TF_CONFIG", R"({"cluster":{"worker":["a:1","b:1","c:1","d:1"]},
                                                "task":{"type":"worker","index":0}})"}}),
              LauncherKind::kOpenMpi, 3, 4, 2, "OMPI_COMM_WORLD_SIZE=4"},
        Found{"Kubernetes", With(kKubernetes, {{"WORLD_SIZE", "4"}}), LauncherKind::kKubernetes, 2,
              4, 0, "JOB_COMPLETION_INDEX=2, WORLD_SIZE=4"}),
    [](const auto& param) { return param.param.name; });

absl::StatusOr<std::optional<TfCluster>> ClusterOf(const std::string& config) {
  return ReadTfCluster([&config](std::string_view name) {
    return name == "TF_CONFIG" ? std::optional(config) : std::nullopt;
  });
}

TEST(ReadTfCluster, TheChiefIsTheFirstWorkerAndPsTasksAreServers) {
  const std::string cluster =
      R"("cluster":{"chief":["a:1"],"worker":["b:2","c:3"],"ps":["d:4","e:5"]})";
  const auto task = [&](const std::string& type, int index) {
    auto found = ClusterOf(
        absl::StrCat("{", cluster, R"(,"task":{"type":")", type, R"(","index":)", index, "}}"));
    EXPECT_TRUE(found.ok() && found->has_value()) << found.status();
    return found.ok() ? (*found).value_or(TfCluster()) : TfCluster();
  };
  EXPECT_EQ(task("chief", 0).workers, (std::vector<std::string>{"a:1", "b:2", "c:3"}));
  EXPECT_EQ(task("chief", 0).servers, (std::vector<std::string>{"d:4", "e:5"}));
  EXPECT_EQ(task("chief", 0).index, 0);
  EXPECT_EQ(task("worker", 1).index, 2);
  EXPECT_FALSE(task("worker", 1).is_server);
  EXPECT_EQ(task("ps", 1).index, 1);
  EXPECT_TRUE(task("ps", 1).is_server);
}

TEST(ReadTfCluster, AClusterWithoutServersIsNone) {
  for (const char* const config :
       {"", "{}", R"({"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":0}})",
        R"({"cluster":{"worker":["a:1"],"ps":[]},"task":{"type":"worker","index":0}})"}) {
    const auto cluster = ClusterOf(config);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    EXPECT_FALSE(cluster->has_value());
  }
}

TEST(ReadTfCluster, OtherTasksAndServersWithoutWorkersAreInvalid) {
  for (const char* const config :
       {R"({"cluster":{"worker":["a:1"],"ps":["b:1"]},"task":{"type":"evaluator","index":0}})",
        R"({"cluster":{"worker":["a:1"],"ps":["b:1"]},"task":{"type":"ps","index":1}})",
        R"({"cluster":{"ps":["b:1"]},"task":{"type":"ps","index":0}})"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ClusterOf(config).status())) << config;
  }
}

TEST(DetectLauncher, FlagsWinOverVariablesOfTheSameSize) {
  const absl::StatusOr<Launcher> launcher = Detect(kOpenMpi, {.rank = 1, .size = 4});
  ASSERT_TRUE(launcher.ok()) << launcher.status();
  EXPECT_EQ(launcher->kind, LauncherKind::kFlags);
  EXPECT_EQ(launcher->rank, 1);
  EXPECT_EQ(launcher->source, "--world-size=4");
}

TEST(DetectLauncher, TheSizeOfAnIndexedJobMayBeAFlag) {
  const absl::StatusOr<Launcher> launcher = Detect(kKubernetes, {.rank = {}, .size = 3});
  ASSERT_TRUE(launcher.ok()) << launcher.status();
  EXPECT_EQ(launcher->kind, LauncherKind::kKubernetes);
  EXPECT_EQ(launcher->size, 3);
  EXPECT_EQ(launcher->source, "JOB_COMPLETION_INDEX=2, --world-size=3");
}

TEST(DetectLauncher, APodOnItsOwnSaysSoByFlags) {
  const absl::StatusOr<Launcher> launcher = Detect(kKubernetes, {.rank = 0, .size = 1});
  ASSERT_TRUE(launcher.ok()) << launcher.status();
  EXPECT_EQ(launcher->size, 1);
}

struct Named {
  std::string name;
  Environment environment;
  std::string rendezvous;
  std::string job_id;
};

class NamesTheMeetingPlace : public testing::TestWithParam<Named> {};

TEST_P(NamesTheMeetingPlace, AndTheJob) {
  const absl::StatusOr<Launcher> launcher = Detect(GetParam().environment);
  ASSERT_TRUE(launcher.ok()) << launcher.status();
  EXPECT_EQ(launcher->rendezvous, GetParam().rendezvous);
  EXPECT_EQ(launcher->job_id, GetParam().job_id);
}

INSTANTIATE_TEST_SUITE_P(
    Table, NamesTheMeetingPlace,
    testing::Values(
        Named{"Torchrun", kTorchrun, "tcp:node1:29500", "run7.2"},
        Named{"TorchrunThatListensItself",
              With(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}), "tcp:node1:29501",
              "run7.2"},
        Named{"ByHandWithIpv6", With(kByHand, {{"MASTER_ADDR", "fd00::7"}, {"MASTER_PORT", "5"}}),
              "tcp:[fd00::7]:5", ""},
        Named{"ByHandWithoutAddress", kByHand, "", ""},
        Named{"OpenMpi", With(kOpenMpi, {{"PMIX_NAMESPACE", "123"}}), "", "123"},
        Named{"Srun",
              With(kSrun, {{"SLURM_JOB_ID", "12"}, {"SLURM_STEP_NODELIST", "gpu[07-09,12]"}}),
              "tcp:gpu07:20084", "12.0"},
        Named{"SrunOfAFarJob",
              With(kSrun, {{"SLURM_JOB_ID", "99999999999"},
                           {"SLURM_STEP_NODELIST", "a"},
                           {"SLURM_RESTART_COUNT", "1"}}),
              "tcp:a:29993", "99999999999.0.1"},
        Named{"SrunWithMasterAddress",
              With(kSrun, {{"SLURM_JOB_ID", "12"},
                           {"SLURM_STEP_NODELIST", "gpu1"},
                           {"MASTER_ADDR", "h"},
                           {"MASTER_PORT", "5"}}),
              "tcp:h:5", "12.0"},
        Named{"TfConfig", kTfConfig, "tcp:a:1", ""},
        Named{"Kubernetes", With(kKubernetes, {{"WORLD_SIZE", "4"}}), "tcp:job-0.svc:29500", ""}),
    [](const auto& param) { return param.param.name; });

TEST(FirstHost, OfSlurmsLists) {
  EXPECT_EQ(FirstHost("node7"), "node7");
  EXPECT_EQ(FirstHost("node7,node8"), "node7");
  EXPECT_EQ(FirstHost("node[001-003,007],other"), "node001");
  EXPECT_EQ(FirstHost("node[5]"), "node5");
  EXPECT_EQ(FirstHost("rack[2-3]-node[04,9].example"), "rack2-node04.example");
  EXPECT_EQ(FirstHost("node[3"), "node3");
  EXPECT_EQ(FirstHost(""), "");
}

struct Refused {
  std::string name;
  Environment environment;
};

class RefusesLauncher : public testing::TestWithParam<Refused> {};

TEST_P(RefusesLauncher, NamingTheVariable) {
  EXPECT_MESSAGE(Detect(GetParam().environment).status(), absl::StatusCode::kFailedPrecondition,
                 GetParam().name);
}

INSTANTIATE_TEST_SUITE_P(
    Table, RefusesLauncher,
    testing::Values(
        Refused{"Word", With(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "four"}})},
        Refused{"Negative", With(kSrun, {{"SLURM_PROCID", "-1"}})},
        Refused{"RankBeyondSize", With(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "4"}})},
        Refused{"SizeZero", {{"PMI_SIZE", "0"}, {"PMI_RANK", "0"}}},
        Refused{"SizeWithoutRank", {{"OMPI_COMM_WORLD_SIZE", "2"}}},
        Refused{"MpirunInsideEveryTask", With(kOpenMpi, {{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}})},
        Refused{"WorldSizeOfAnotherJobThanMpirun", With(kOpenMpi, kByHand)},
        Refused{"WorldSizeOfAnotherJobThanSrun", With(kSrun, kByHand)},
        Refused{"TfConfigOfAnotherJob", With(kSrun, kTfConfig)},
        Refused{"TorchrunRankBeyondSize", With(kTorchrun, {{"RANK", "8"}})},
        Refused{"TorchrunLocalRankBeyondSize", With(kTorchrun, {{"LOCAL_RANK", "4"}})},
        Refused{"MasterPortBeyondAll", With(kTorchrun, {{"MASTER_PORT", "65536"}})},
        Refused{"MasterPortBeyondAllNumbers",
                With(kTorchrun, {{"MASTER_PORT", "9223372036854775807"},
                                 {"TORCHELASTIC_USE_AGENT_STORE", "True"}})},
        Refused{"NoPortAfterTheLast", With(kTorchrun, {{"MASTER_PORT", "65535"},
                                                       {"TORCHELASTIC_USE_AGENT_STORE", "True"}})},
        Refused{"MasterPortAlone", With(kByHand, {{"MASTER_PORT", "1"}})},
        Refused{"IndexWithoutSize", kKubernetes},
        Refused{"IndexBeyondSize", With(kKubernetes, {{"WORLD_SIZE", "2"}})}),
    [](const auto& param) { return param.param.name; });

TEST(DetectLauncher, FlagsOfAnotherSizeThanTheLauncherAreFailedPrecondition) {
  for (const LaunchFlags& flags : {LaunchFlags{0, 2}, LaunchFlags{{}, 2}, LaunchFlags{0, 1}}) {
    EXPECT_MESSAGE(Detect(kOpenMpi, flags).status(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST(DetectLauncher, ASizeThatNobodyGivesARankToIsFailedPrecondition) {
  const absl::Status status = Detect({}, {.rank = {}, .size = 2}).status();
  EXPECT_MESSAGE(status, absl::StatusCode::kFailedPrecondition);
}

TEST(DetectLauncher, FlagsThatDoNotFitAreInvalid) {
  for (const LaunchFlags& flags :
       {LaunchFlags{0, {}}, LaunchFlags{2, 2}, LaunchFlags{-1, 2}, LaunchFlags{0, 0}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Detect({}, flags).status())) << Detect({}, flags).status();
  }
}

const size_t kDeep = Rounds(1'000'000u);

struct Bad {
  std::string name;
  std::string text;
};

class BadTfConfig : public testing::TestWithParam<Bad> {};

TEST_P(BadTfConfig, IsInvalid) {
  EXPECT_MESSAGE(Detect({{"TF_CONFIG", GetParam().text}}).status(),
                 absl::StatusCode::kInvalidArgument, GetParam().name);
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadTfConfig,
    testing::Values(
        Bad{"NoJson", R"({"cluster": oops})"}, Bad{"CutShort", R"({"cluster": {)"},
        Bad{"NoObject", "[1]"}, Bad{"ClusterOfText", R"({"cluster":"a","task":{}})"},
        Bad{"NoTask", R"({"cluster":{"worker":["a:1"]}})"},
        Bad{"ParameterServer",
            R"({"cluster":{"ps":["a:1"],"worker":["b:1"]},"task":{"type":"ps","index":0}})"},
        Bad{"IndexBeyond", R"({"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":1}})"},
        Bad{"IndexNegative",
            R"({"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":-1}})"},
        Bad{"IndexHuge", R"({"cluster":{"worker":["a:1"]},)"
                         R"("task":{"type":"worker","index":18446744073709551615}})"},
        Bad{"TwoChiefs",
            R"({"cluster":{"chief":["a:1","b:1"]},"task":{"type":"chief","index":0}})"},
        Bad{"AddressNoText",
            R"({"cluster":{"worker":["a:1",7]},"task":{"type":"worker","index":0}})"},
        Bad{"NumberBeyondADouble", R"({"a":1e1000})"}, Bad{"Deep", std::string(100000, '[')},
        Bad{"DeepType", absl::StrCat(R"({"cluster":{},"task":{"type":)", std::string(kDeep, '['),
                                     std::string(kDeep, ']'), "}}")},
        Bad{"DeepIndex",
            absl::StrCat(R"({"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":)",
                         std::string(kDeep, '['), std::string(kDeep, ']'), "}}")}),
    [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace millrace::collectives

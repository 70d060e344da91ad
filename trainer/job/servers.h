#ifndef MILLRACE_TRAINER_JOB_SERVERS_H_
#define MILLRACE_TRAINER_JOB_SERVERS_H_

#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "trainer/job/bad_field.h"
#include "trainer/job/job.pb.h"
#include "trainer/train.h"

// The job's `strategy { parameter_server {} }`: its fields, their limits and their defaults.

namespace millrace::trainer {

inline constexpr char kServersField[] = "strategy.parameter_server";
inline constexpr uint32_t kMaxServers = 1024;

// True if `job` trains on parameter servers.
inline bool UsesServers(const Job& job) { return job.strategy().has_parameter_server(); }

// Gives fields other values; a job without the strategy gets it, unless there are none.
//   INVALID_ARGUMENT  there is no such field, or the value is not of its type
absl::Status SetServers(std::span<const FieldValue> fields, Job& job);

// The first field of a job, as the user wrote it, that is out of range or does not go with
// parameter servers; nullopt: none.
std::optional<BadField> CheckServers(const Job& job);

// All but max_staleness, which depends on the number of workers.
void FillDefaults(ParameterServer& spec);

// The limit on staleness.
uint64_t MaxStaleness(const ParameterServer& spec, int workers);

// Clears the strategy if it changes no weight, else the fields of it that change none.
void KeepWhatWeightsDependOn(StrategySpec* strategy);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_JOB_SERVERS_H_

#ifndef MILLRACE_TRAINER_SERVER_DESCRIBE_H_
#define MILLRACE_TRAINER_SERVER_DESCRIBE_H_

#include <string>
#include <vector>

#include "trainer/job/job.pb.h"
#include "trainer/loop/session.h"
#include "trainer/server/cluster.h"
#include "trainer/train.h"

namespace millrace::trainer {

// "asynchronous, gradients up to 6 updates late; exact: no update is lost or made twice, ...".
std::string DescribeStrategy(const ParameterServer& spec, int workers);

// The lines of the start-up table of a training on servers.
std::vector<std::string> DescribeServers(const Session& session, const TrainOptions& options,
                                         const ServerCluster& cluster);

// "gradients: 240 used, 3 dropped", "staleness 0: 100 (41.7%)", ..., "workers: 2 lost, 2 joined; ".
std::vector<std::string> DescribeCounts(const ServerCounts& counts);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_SERVER_DESCRIBE_H_

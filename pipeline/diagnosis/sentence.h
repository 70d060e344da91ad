#ifndef MILLRACE_PIPELINE_DIAGNOSIS_SENTENCE_H_
#define MILLRACE_PIPELINE_DIAGNOSIS_SENTENCE_H_

#include <string>

#include "pipeline/diagnosis.h"

namespace millrace::pipeline {

// Reads of more bytes than this factor of the records' are worth a mention.
inline constexpr double kNotableReadFactor = 1.15;

// The diagnosis in one or two sentences. The rest of `diagnosis` is complete.
std::string SentenceOf(const Diagnosis& diagnosis);

// "2,849", "98.7", "0.31": three digits, or all of those in front of the point.
std::string RateText(double rate);
// The same to two digits, or three from 1,000 on: "about".
std::string AboutText(double rate);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_DIAGNOSIS_SENTENCE_H_

// The driver's jobs and answers are written as target/bytes.h does.
#pragma once
#include "target/bytes.h"

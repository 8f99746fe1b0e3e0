/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and their signatures, computed with botocore 1.43: what sign.c has to reproduce. */
#ifndef HOLDFAST_TESTS_SIGN_TABLE_H
#define HOLDFAST_TESTS_SIGN_TABLE_H

#include <stdint.h>

#define TABLE_AT_S INT64_C(1440938160)
#define TABLE_ACCESS "AKIDEXAMPLE"
#define TABLE_SECRET "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

static const struct sign_row {
	const char *name;
	const char *method;
	const char *host;
	const char *raw_path; /* what sign_path_add() gets */
	const char *path;     /* what it has to give */
	const char *query;
	const char *headers[4];
	const char *payload;
	const char *service;
	const char *region;
	const char *token;
	unsigned expires_s; /* not 0: presigned */
	const char *want;   /* Authorization, or the whole query */
} sign_rows[] = {
	{
		.name = "s3 get",
		.method = "GET",
		.host = "bucket.s3.eu-west-1.amazonaws.com",
		.raw_path = "/key",
		.path = "/key",
		.query = NULL,
		.service = "s3",
		.region = "eu-west-1",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/s3/aws4_request, "
			"SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
			"Signature=5cab15f499839acf8d792ce490f4cc2b4d91e049295809940232a94d0c2af49a",
	},
	{
		.name = "s3 get of the root",
		.method = "GET",
		.host = "bucket.s3.eu-west-1.amazonaws.com",
		.raw_path = "/",
		.path = "/",
		.query = NULL,
		.service = "s3",
		.region = "eu-west-1",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/s3/aws4_request, "
			"SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
			"Signature=33f88c76aea3eec76c35dbd527b77fbcd14d90e60a7413d5a1499de5c7257e81",
	},
	{
		.name = "s3 key with plus",
		.method = "GET",
		.host = "bucket.s3.eu-west-1.amazonaws.com",
		.raw_path = "/run/a+b",
		.path = "/run/a%2Bb",
		.query = NULL,
		.service = "s3",
		.region = "eu-west-1",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/s3/aws4_request, "
			"SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
			"Signature=b8f13313d6ec3e368e90c9ef638ce30af23065ebc399f9d0b12adfcdd311ecf5",
	},
	{
		.name = "s3 key with space",
		.method = "GET",
		.host = "bucket.s3.eu-west-1.amazonaws.com",
		.raw_path = "/run/a b",
		.path = "/run/a%20b",
		.query = NULL,
		.service = "s3",
		.region = "eu-west-1",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/s3/aws4_request, "
			"SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
			"Signature=8f86f801ac9b9d0de4d2e1eafa99b9dcc9cdf97069e1c06a628e43338ea8b105",
	},
	{
		.name = "s3 key with percent twenty",
		.method = "GET",
		.host = "bucket.s3.eu-west-1.amazonaws.com",
		.raw_path = "/run/a%20b",
		.path = "/run/a%2520b",
		.query = NULL,
		.service = "s3",
		.region = "eu-west-1",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/s3/aws4_request, "
			"SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
			"Signature=5bff86e7d02413f975a6e02f4f1c9688086141950c2d86ed98e060a470c484ac",
	},
	{
		.name = "s3 key with umlaut",
		.method = "GET",
		.host = "bucket.s3.eu-west-1.amazonaws.com",
		.raw_path = "/run/\303\274",
		.path = "/run/%C3%BC",
		.query = NULL,
		.service = "s3",
		.region = "eu-west-1",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/s3/aws4_request, "
			"SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
			"Signature=ddadbd603c59bfebe5a676dfce6159bb6241f112a274a021f529aa273e794176",
	},
	{
		.name = "s3 key with japanese",
		.method = "GET",
		.host = "bucket.s3.eu-west-1.amazonaws.com",
		.raw_path = "/run/\346\227\245\346\234\254",
		.path = "/run/%E6%97%A5%E6%9C%AC",
		.query = NULL,
		.service = "s3",
		.region = "eu-west-1",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/s3/aws4_request, "
			"SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
			"Signature=3921f96a4f4ad1d55a31c0269764b505a6e8c2fedafdae53a358b6f74954a2e1",
	},
	{
		.name = "s3 key with quotes",
		.method = "GET",
		.host = "bucket.s3.eu-west-1.amazonaws.com",
		.raw_path = "/run/a'b\"c",
		.path = "/run/a%27b%22c",
		.query = NULL,
		.service = "s3",
		.region = "eu-west-1",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/s3/aws4_request, "
			"SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
			"Signature=1234605e6b066b9905d6cb75f43c48d4ceb681674d7d87cba0c736c42376d8f3",
	},
	{
		.name = "s3 key with every mark",
		.method = "GET",
		.host = "bucket.s3.eu-west-1.amazonaws.com",
		.raw_path = "/!#$&()*,:;<=>?@[\\]^`{|}~-_.",
		.path = "/%21%23%24%26%28%29%2A%2C%3A%3B%3C%3D%3E%3F%40%5B%5C%5D%5E%60%7B%7C%7D~-_.",
		.query = NULL,
		.service = "s3",
		.region = "eu-west-1",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/s3/aws4_request, "
			"SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
			"Signature=31e1dd69a0a2e67b18baf071ea5b5d9e87fac426858c75f2a5c35b0d08ceec6d",
	},
	{
		.name = "s3 key with dots and slashes as they are",
		.method = "GET",
		.host = "bucket.s3.eu-west-1.amazonaws.com",
		.raw_path = "/a//b/../c/./d/",
		.path = "/a//b/../c/./d/",
		.query = NULL,
		.service = "s3",
		.region = "eu-west-1",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/s3/aws4_request, "
			"SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
			"Signature=d525eedbe72221ce22874d1ef99df91699c63f01a0abcb3e61acee3b4f27a2b6",
	},
	{
		.name = "s3 list",
		.method = "GET",
		.host = "bucket.s3.eu-west-1.amazonaws.com",
		.raw_path = "/",
		.path = "/",
		.query = "list-type=2&prefix=log%2F%C3%BC%20a%2Bb&max-keys=1&delimiter=%2F&start-after=",
		.service = "s3",
		.region = "eu-west-1",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/s3/aws4_request, "
			"SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
			"Signature=a2a7bc33c23cb01fdb3d443758d65f5b8c10210e1b6e11a890969bd25684aef9",
	},
	{
		.name = "s3 query names that sort around the equals sign",
		.method = "GET",
		.host = "bucket.s3.eu-west-1.amazonaws.com",
		.raw_path = "/",
		.path = "/",
		.query = "uploads=&a-b=1&a=2&a.b=3&A=4&a0=5",
		.service = "s3",
		.region = "eu-west-1",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/s3/aws4_request, "
			"SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
			"Signature=b084345f74e4f8e7b4366cb82329cd954cad4e1f8fc27300f36a55d4d38a2399",
	},
	{
		.name = "s3 put unsigned",
		.method = "PUT",
		.host = "bucket.s3.eu-west-1.amazonaws.com",
		.raw_path = "/packs/ab/1",
		.path = "/packs/ab/1",
		.query = NULL,
		.headers = {"Content-Type: application/octet-stream",
			    "If-None-Match: *",
			    "x-amz-checksum-crc32c: AAAAAA=="},
		.payload = "UNSIGNED-PAYLOAD",
		.service = "s3",
		.region = "eu-west-1",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/s3/aws4_request, "
			"SignedHeaders=content-type;host;if-none-match;x-amz-checksum-crc32c;x-amz-content-sha256;x-amz-date, "
			"Signature=d3b1031e23e1b7e3cc2bb71941f5652cfab8971f09d8ece29e2aac51cd922335",
	},
	{
		.name = "s3 put signed",
		.method = "PUT",
		.host = "bucket.s3.eu-west-1.amazonaws.com",
		.raw_path = "/log/99999999999999999999",
		.path = "/log/99999999999999999999",
		.query = NULL,
		.headers = {"If-None-Match: *"},
		.payload = "70ce871f8a3d3fb449bc3c3ace6547cef02dfc74ffe48d912532a724bfdbe5b9",
		.service = "s3",
		.region = "eu-west-1",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/s3/aws4_request, "
			"SignedHeaders=host;if-none-match;x-amz-content-sha256;x-amz-date, "
			"Signature=30ed59b34fb3a9656e40b8afc783a280811a1f28140e8765af086b0290266846",
	},
	{
		.name = "s3 put with a session token",
		.method = "PUT",
		.host = "bucket.s3.eu-west-1.amazonaws.com",
		.raw_path = "/k",
		.path = "/k",
		.query = NULL,
		.headers = {"If-None-Match: *"},
		.payload = "UNSIGNED-PAYLOAD",
		.service = "s3",
		.region = "eu-west-1",
		.token = "FwoGZXIvYXdzEXAMPLE//token+with/odd=characters==",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/s3/aws4_request, "
			"SignedHeaders=host;if-none-match;x-amz-content-sha256;x-amz-date;x-amz-security-token, "
			"Signature=6147dccc39aeded244aea7c15c113b7a33c3608515507901c556e3fca3e8cbbf",
	},
	{
		.name = "s3 range",
		.method = "GET",
		.host = "127.0.0.1:7070",
		.raw_path = "/bucket/packs/ab/1",
		.path = "/bucket/packs/ab/1",
		.query = NULL,
		.headers = {"Range: bytes=0-1023",
			    "User-Agent: holdfast/1",
			    "Expect: 100-continue"},
		.service = "s3",
		.region = "eu-west-1",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/s3/aws4_request, "
			"SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
			"Signature=9fe01b8f632eb5de4f7a693360c5a7f777a3ae5e8364ec43b6e5c4b59f7f335d",
	},
	{
		.name = "header blanks",
		.method = "GET",
		.host = "bucket.s3.eu-west-1.amazonaws.com",
		.raw_path = "/k",
		.path = "/k",
		.query = NULL,
		.headers = {"x-amz-meta-a:   a   b\011c  ",
			    "X-Amz-Meta-B: ",
			    "x-amz-meta-c: \303\274"},
		.service = "s3",
		.region = "eu-west-1",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/s3/aws4_request, "
			"SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-meta-a;x-amz-meta-b;x-amz-meta-c, "
			"Signature=5476b501e4bdc0ebe5e278d98bee59e9e2e8cd30e895b7f0e62bb62e67dfcd98",
	},
	{
		.name = "s3 presigned get",
		.method = "GET",
		.host = "bucket.s3.eu-west-1.amazonaws.com",
		.raw_path = "/run/a b+c",
		.path = "/run/a%20b%2Bc",
		.query = NULL,
		.service = "s3",
		.region = "eu-west-1",
		.expires_s = 3600,
		.want = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F201508"
			"30%2Feu-west-1%2Fs3%2Faws4_request&X-Amz-Date=20150830T123600Z&X-Amz-E"
			"xpires=3600&X-Amz-SignedHeaders=host&X-Amz-Signature=f2ae4e788ab2bd8c2"
			"b8ced0289b80cc3b9918ead51093b657da36204c22190ba",
	},
	{
		.name = "s3 presigned with query and token",
		.method = "GET",
		.host = "bucket.s3.eu-west-1.amazonaws.com",
		.raw_path = "/k",
		.path = "/k",
		.query = "versionId=a%2Fb%2Bc&response-content-type=text%2Fplain%3B%20charset%3Dx",
		.service = "s3",
		.region = "eu-west-1",
		.token = "FwoGZXIvYXdzEXAMPLE//token+with/odd=characters==",
		.expires_s = 604800,
		.want = "versionId=a%2Fb%2Bc&response-content-type=text%2Fplain%3B%20charset%3D"
			"x&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F2015"
			"0830%2Feu-west-1%2Fs3%2Faws4_request&X-Amz-Date=20150830T123600Z&X-Amz"
			"-Expires=604800&X-Amz-SignedHeaders=host&X-Amz-Security-Token=FwoGZXIv"
			"YXdzEXAMPLE%2F%2Ftoken%2Bwith%2Fodd%3Dcharacters%3D%3D&X-Amz-Signature"
			"=bf185eba70c95eac57417a8ab8430a1e06d0ac7b600d6428dfcef4a1a4da4d8b",
	},
	{
		.name = "s3 presigned put with a header",
		.method = "PUT",
		.host = "bucket.s3.eu-west-1.amazonaws.com",
		.raw_path = "/k",
		.path = "/k",
		.query = NULL,
		.headers = {"If-None-Match: *"},
		.service = "s3",
		.region = "eu-west-1",
		.expires_s = 60,
		.want = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F201508"
			"30%2Feu-west-1%2Fs3%2Faws4_request&X-Amz-Date=20150830T123600Z&X-Amz-E"
			"xpires=60&X-Amz-SignedHeaders=host%3Bif-none-match&X-Amz-Signature=d87"
			"43b6f84cf0379d7dbf81de3584fbf7d14fdab69a34367679d727531b0b43d",
	},
	{
		.name = "ec2 post",
		.method = "POST",
		.host = "ec2.us-east-1.amazonaws.com",
		.raw_path = "/",
		.path = "/",
		.query = NULL,
		.headers = {"Content-Type: application/x-www-form-urlencoded; charset=utf-8"},
		.payload = "6171eb09865e32b0602af0f7957e26573a51f53caaedff02ff88883cb0275885",
		.service = "ec2",
		.region = "us-east-1",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/ec2/aws4_request, "
			"SignedHeaders=content-type;host;x-amz-date, "
			"Signature=16bec6625521eb1b2a944bb8409fdd5a54007d61862cf7074d07d2e75a3a4950",
	},
	{
		.name = "ec2 post with a session token",
		.method = "POST",
		.host = "ec2.us-east-1.amazonaws.com",
		.raw_path = "/",
		.path = "/",
		.query = NULL,
		.headers = {"Content-Type: application/x-www-form-urlencoded; charset=utf-8"},
		.payload = "022d07cdcc6a13e3c567b8a3b4256516a0ec5296663beeddbca0d15b685e8382",
		.service = "ec2",
		.region = "us-east-1",
		.token = "FwoGZXIvYXdzEXAMPLE//token+with/odd=characters==",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/ec2/aws4_request, "
			"SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, "
			"Signature=585ea3d60ad0b0a01cd01b832bf945a3fa6012fb23e98d7bf1e35989d8886f37",
	},
	{
		.name = "other service encodes twice",
		.method = "GET",
		.host = "scheduler.us-east-1.amazonaws.com",
		.raw_path = "/schedules/a b+\303\274%",
		.path = "/schedules/a%20b%2B%C3%BC%25",
		.query = "groupName=hold%20fast",
		.service = "scheduler",
		.region = "us-east-1",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/scheduler/aws4_request, "
			"SignedHeaders=host;x-amz-date, "
			"Signature=c359e900cf6186b3b6abdf6e52f123e6f654d32fc8a20de438dc501e733d5bb2",
	},
	{
		.name = "other service normalises",
		.method = "GET",
		.host = "scheduler.us-east-1.amazonaws.com",
		.raw_path = "//schedules/./x/../name//",
		.path = "//schedules/./x/../name//",
		.query = NULL,
		.service = "scheduler",
		.region = "us-east-1",
		.want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/scheduler/aws4_request, "
			"SignedHeaders=host;x-amz-date, "
			"Signature=b828b07155f95f0ba54f41b68c7b0dcc8d06029705636c8c978f33cb1f973a17",
	},
	{
		.name = "other service presigned",
		.method = "GET",
		.host = "sts.us-east-1.amazonaws.com",
		.raw_path = "/",
		.path = "/",
		.query = "Action=GetCallerIdentity&Version=2011-06-15",
		.service = "sts",
		.region = "us-east-1",
		.token = "FwoGZXIvYXdzEXAMPLE//token+with/odd=characters==",
		.expires_s = 60,
		.want = "Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=AWS4-HMAC-"
			"SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20150830%2Fus-east-1%2Fsts%2Faws"
			"4_request&X-Amz-Date=20150830T123600Z&X-Amz-Expires=60&X-Amz-SignedHea"
			"ders=host&X-Amz-Security-Token=FwoGZXIvYXdzEXAMPLE%2F%2Ftoken%2Bwith%2"
			"Fodd%3Dcharacters%3D%3D&X-Amz-Signature=426392ab20de83363b66480a3fe3b7"
			"cd8551ca82784d64d663e59d3e5bee98d5",
	},
};

#endif

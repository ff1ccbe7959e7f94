"""What the load generator calls the full endpoint with. It opens nothing but a benchmark's own database."""

KEY = "mcp_key_Hypq4kPkILF5Lryrk0pkOnpM6iSJdNSvXX4N5OCrq5y0KJu8V"
KEYS = (
    KEY,
    "mcp_key_IJHIRb03VNyzPdhslMTr5wMpy9CZQ90S4NZ4k48zaL53pPmZd",
    "mcp_key_op8t1YeKHIGMyTrbPHLA9Hqvt1bxm7Dtqa37HyhCn562qVFpl",
    "mcp_key_ZpZhK5dVNmLyHEYPEHBtbI2Uac3qvzKggzyYedaFC0H2IJ4Li",
    "mcp_key_YP9QYqzakSWKin3ylwNSSEPduubUz3ubZQBiI5RleKE1LkbUq",
    "mcp_key_U4OPEclXMcWukQSO9zVKdqcMMMRgP6T7NKL0IdsBlz02bZEEs",
    "mcp_key_LtdmtHRIDxLows203Me5Ob5akrdtmYV0OaaN9W2XdBu28U4TX",
    "mcp_key_11udkRZoNtBBcmIPQgn0r6R2D6YeB2sGP1CYs9KXag72QelCv",
    "mcp_key_qiuN0JtPjPzxwEjFuoK50Yp42xSfPa9rYLCyTFgvbrt0SFXiG",
    "mcp_key_ikvMztDrClS8dbBbu8gCsPrgCnN1iTf7ddE6ki3Lb9r3EQB8V",
    "mcp_key_4n6S1nZqEVLOKNxN5IwkgmGazUaSGZLPu8Ophdf1UWE2eTWc0",
    "mcp_key_pKcUx33Xn4eVMAxYuKxNjjsRSikjqWXb83NRu3BTMdT0sN8N8",
    "mcp_key_2EgZNJ5k88DhkPc7PDVwrFDy3Nm8msqYT4rb1YqshbZ2ZKDU8",
    "mcp_key_Vg3qxfYC8S8LMb8Av8wh8Pl3iLH2aLL4CsclpnaO9Vq0203s8",
    "mcp_key_xEIe0ljZ0I73GOVdGkI29PjKo9uds1o75mpej18kMCo1CJRCm",
    "mcp_key_Hz9yH1N87TajJLgFyyxlzePZeiXXkSjV8BYvTC8WnbU2HsFCk",
)
"""One for each of sixteen connections."""
SESSION = "benchmark-session-0123456789abcdef"


p
0/xConst*
dtype0*U
valueLBJ"<´«=öZ‹>õuR>n◊∑=ﬂZæDeï>ç§ˇΩyñH?5em?7∂næ¸\?
µl=ÚZ>ÕÁY?)°[ø
L
0/wConst*
dtype0*1
value(B&" cSøÔ•uø&M*?êj?;r=?wu?
p
0/yConst*
dtype0*U
valueLBJ"<ÑÍ
æK•ˆ>‘kV>u¶É>¿áC?∏‡">s;(æû{è?ZÃ∆>iÔ·=h2?®Dº=Hr∂=Ô:ò?ö`ø
y
0/gradient/xConst*
dtype0*U
valueLBJ"<ÆÍ!æÁŒ≤?mÎ>üK>¡ôøÈ4·=Î“ª#äÌ?ﬂΩC=$√€Ω≤Ô¿neÇægfR>´¸.@'™1ø
U
0/gradient/wConst*
dtype0*1
value(B&"†‚èΩZú∏>»xΩæ˝ª≥>Pw»=}ê?"™